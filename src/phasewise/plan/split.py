"""What of a plan starts which stage."""

from __future__ import annotations

import msgspec

from phasewise.records.plan import CapturePlan, VariantPlan

# run by the gate, so that the gate depends on them
GATE_TOOLS = ("sanitizer",)


def split_plan(plan: VariantPlan) -> tuple[VariantPlan, CapturePlan]:
    """What validate and measure depend on, and what only profile and export do."""
    tools = tuple(name for name in plan.profilers if name in GATE_TOOLS)
    captures = CapturePlan(
        profilers=plan.profilers, exporters=plan.exporters, exported=plan.exported, nsight=plan.nsight
    )
    return msgspec.structs.replace(plan, profilers=tools, exporters=(), exported=None, nsight=None), captures
