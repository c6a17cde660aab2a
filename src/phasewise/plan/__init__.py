"""The plan stage: configuration and workloads to plan records, without torch."""

from phasewise.plan.make import PlannedRun, plan_runs
from phasewise.plan.write import write_plans

__all__ = ["PlannedRun", "plan_runs", "write_plans"]
