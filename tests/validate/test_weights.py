"""What a baseline with weights is held against, and what the gate suspects where that fails."""

from __future__ import annotations

from pathlib import Path

import msgspec

from phasewise.records.validate import Outcome
from phasewise.validate.case import validate_case
from plans import make_baseline

HERE = Path(__file__).parent


def test_a_baseline_that_draws_its_modules_weights_passes_its_own_gate() -> None:
    found = validate_case(make_baseline("weighted.py", HERE, cases=("module",)), "module", HERE)
    assert found.outcome is Outcome.PASS, found.message
    assert max(error.worst or 0.0 for error in found.errors) < 0.1


def test_numbers_drawn_beside_a_module_are_suspected() -> None:
    found = validate_case(make_baseline("weighted.py", HERE, cases=("beside",)), "beside", HERE)
    assert found.outcome is Outcome.FAIL
    assert (
        "; the weights may differ: build draws random numbers, and the reference takes over only what modules hold"
        in found.message
    )


def test_a_phase_with_other_weights_is_suspected() -> None:
    plan = make_baseline("weighted.py", HERE, cases=("module",))
    own = validate_case(plan, "module", HERE)
    cases = tuple(msgspec.structs.replace(case, switches={**case.switches, "seed": 1}) for case in plan.cases)
    other = msgspec.structs.replace(plan, variant="01-reseeded", cases=cases, switches={**plan.switches, "seed": 1})
    found = validate_case(other, "module", HERE, baseline=own)
    assert (
        found.outcome is Outcome.FAIL
        and "the weights may differ from the baseline's: build draws random numbers" in found.message
    )
