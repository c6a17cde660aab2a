"""A/A controls: what this machine pretends when both arms are the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from phasewise.analyse.compare import Comparison, Estimates, Key, to_interval
from phasewise.records.analyse import Control
from phasewise.run import Run
from phasewise.stats import UNMEASURED_FLOOR, Chances, aa_floor, adjust_chances, decide_status, noise_limit


def set_limits(run: Run, estimates: Estimates) -> Estimates:
    """The estimates with the noise limit of each comparison, from the controls of its case."""
    controls = {
        case: [(found.noise, found.ratio) for found in _controls(estimates, case).values() if found.noise is not None]
        for case in run.plan.cases
    }

    def limited(found: Mapping[Key, Comparison]) -> dict[Key, Comparison]:
        return {
            key: replace(one, limit=noise_limit(one.noise, controls[key[0]]) if one.noise is not None else None)
            for key, one in found.items()
        }

    return replace(
        estimates,
        comparisons=limited(estimates.comparisons),
        over_baseline=limited(estimates.over_baseline),
    )


def explain_no_limit(estimates: Estimates, case: str) -> str:
    """Why no control of the case sets a noise limit, and what holds instead."""
    one_set = "its A/A control has one set of processes, which tells no noise limit"
    why = one_set if _controls(estimates, case) else "there is no A/A control to tell a noise limit"
    return f"{why}: it is taken to be {100 * math.expm1(UNMEASURED_FLOOR):.0f} %"


def tell_controls(run: Run, estimates: Estimates, case: str) -> tuple[Control | None, Control | None]:
    """The control of the end of the stack, and that of the baseline where an older record has one beside it."""
    adjusted = _adjust(estimates)
    told = {name: _tell(found, adjusted[case, name]) for name, found in _controls(estimates, case).items()}
    ends = [control for name, control in told.items() if name != run.baseline]
    controls = [*ends, *(control for name, control in told.items() if name == run.baseline)]
    return (controls[0] if controls else None), (controls[1] if len(controls) > 1 else None)


def _adjust(estimates: Estimates) -> dict[Key, Chances]:
    """The controls of a run are one family: many cases must not raise a false alarm more often than one does."""
    found = {key: control.ratio for key, control in estimates.controls.items()}
    return dict(zip(found, adjust_chances([list(found.values())])[0], strict=True))


def _controls(estimates: Estimates, case: str) -> Mapping[str, Comparison]:
    return {variant: found for (where, variant), found in estimates.controls.items() if where == case}


def _tell(found: Comparison, adjusted: Chances) -> Control:
    ratio = to_interval(found.ratio)
    # compared with no limit of its own: the question is whether it would raise an alarm without one
    decision = decide_status(found.ratio, aa_floor=0.0, adjusted=adjusted)
    limit = aa_floor([found.ratio])
    return Control(
        variant=found.against,
        ratio=ratio,
        # the limit that this control alone would set
        floor=None if limit is None else math.expm1(limit),
        covers_zero=None if ratio is None else ratio.low <= 1.0 <= ratio.high,
        status=decision.status,
    )
