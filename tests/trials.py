"""An open case with its first results, as guards get it."""

from __future__ import annotations

from phasewise.bench.case import BuiltCase
from phasewise.judge.trajectory import follow
from phasewise.tensors import clone
from phasewise.validate.trial import Trial


def make_trial(case: BuiltCase, steps: int) -> Trial:
    """Made after its first `steps` steps."""
    pristine = tuple(clone(batch) for batch in case.batches)
    return Trial(
        case=case,
        first=follow(case, steps),
        allowance=case.plan.allowance,
        inputs=pristine[0],
        pristine=pristine,
        threads=frozenset(),
    )
