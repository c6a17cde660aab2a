"""Plans and open gates for the tests of the export stage."""

from __future__ import annotations

from pathlib import Path

from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation, Outcome, Validation

ROOT = Path(__file__).parents[2]
BUDGET = Budget(min_rounds=3, max_rounds=3, min_sets=1, max_sets=1, block_s=0.001, block_steps=2, seconds=20.0)


def make_plan(*cases: str, exporters: tuple[str, ...] = ("torch-export",), **changes: object) -> VariantPlan:
    fields = {
        "protocol": 1, "workload": "small_models", "source": "tests/export/small_models.py", "run": "tiny-cpu",
        "size": "tiny", "device": "cpu", "variant": "00-baseline", "kind": Kind.BASELINE,
        "cases": tuple(PlannedCase(case=case, shape={"n": 8}, switches={"wide": False}) for case in cases),
        "tier": "moderate", "allowance": Allowance(rtol=1e-4, atol=1e-5), "budget": BUDGET, "exporters": exporters,
        "lock": "lock", "sources": "sources",
    }  # fmt: skip
    return VariantPlan(**{**fields, **changes})


def open_gate(*cases: str, outcome: Outcome = Outcome.PASS, message: str = "") -> Validation:
    return Validation(
        workload="small_models", run="tiny-cpu", variant="00-baseline", plan="p", machine="m", commit="c", tier="moderate",
        cases=tuple(CaseValidation(case=case, outcome=outcome, message=message) for case in cases),
    )  # fmt: skip
