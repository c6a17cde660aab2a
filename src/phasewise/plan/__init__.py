"""The plan stage: configuration and workloads to plan records, without torch."""

from phasewise.plan.machine import find_machine
from phasewise.plan.make import PlannedRun, plan_runs
from phasewise.plan.write import write_plans

__all__ = ["PlannedRun", "find_machine", "plan_runs", "write_plans"]
