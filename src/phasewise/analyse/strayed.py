"""Whether the parent was slowed while it was timed beside a variant, which would make the variant look fast."""

from __future__ import annotations

from statistics import median

from phasewise.analyse.compare import Key
from phasewise.model.arms import find_arm
from phasewise.model.ratios import step_times
from phasewise.records.measure import CaseMeasurement
from phasewise.run import Run

PARENT, VARIANT = "parent", "variant"
# a parent may take so many times as long as in its own measurement, maybe days before: a host is twice as slow in spells
OF_RECORD = 2.5
# and so many times as long as some minutes later, when the variant's processes had ended
OF_ALONE = 1.5


def find_stray(run: Run, key: Key) -> tuple[float, str]:
    """How many times as long the parent took as it should, if that is more than a host's own ups and downs, and a sentence; else (1, "")."""
    case, variant = key
    measured = run[variant].measured(case)
    arm = find_arm(measured, PARENT) if measured is not None else None
    if measured is None or arm is None:
        return 1.0, ""
    here = _usual_s(measured, PARENT)
    own = run[arm.variant].measured(case) if run[arm.variant].is_here else None
    known = _usual_s(own, VARIANT) if own is not None else None
    alone = median(arm.alone_s) if arm.alone_s else None
    for before, most, what in (
        (alone, OF_ALONE, "after the variant had ended"),
        (known, OF_RECORD, "on its own record"),
    ):
        if here is not None and before is not None and here > most * before:
            times = here / before
            return times, f"{arm.variant} took {times:.2f} times as long beside it as {what}"
    return 1.0, ""


def _usual_s(measured: CaseMeasurement, arm: str) -> float | None:
    times = [time for taken in step_times(measured, arm) for time in taken]
    return median(times) if times else None
