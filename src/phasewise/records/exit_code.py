"""What `phasewise judge` and `phasewise try` end with."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from phasewise.records.verdict import Status


class ExitCode(IntEnum):
    """One number for each thing that a caller may want to do next."""

    # right, and faster by more than the noise
    FASTER = 0
    # the command or the base is the user's to mend
    USAGE = 2
    # right, and as fast within 1 %
    SAME = 10
    SLOWER = 11
    # right, and it can't be told whether it is faster
    UNDECIDED = 12
    # a result is off, missing, or of another shape or dtype
    WRONG = 20
    # refused by a guard, or for what it did while it was timed
    CHEAT = 21
    # it could not be run
    CRASH = 30
    # a fault of Phasewise
    OURS = 70


# from what is best to what is worst for a caller who looks at several at once
ORDER = (
    ExitCode.FASTER, ExitCode.SAME, ExitCode.UNDECIDED, ExitCode.SLOWER, ExitCode.WRONG, ExitCode.CHEAT, ExitCode.CRASH,
)  # fmt: skip
CODES = {
    Status.FASTER: ExitCode.FASTER,
    Status.ENABLED: ExitCode.FASTER,
    # right, and compared with nothing
    Status.BASELINE: ExitCode.FASTER,
    Status.SAME: ExitCode.SAME,
    Status.SLOWER: ExitCode.SLOWER,
    Status.INVALID: ExitCode.CHEAT,
    Status.FAILED: ExitCode.CRASH,
}


def choose_worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Of several verdicts on one candidate."""
    return max(codes, key=ORDER.index)


def choose_code(status: Status, *, is_wrong: bool) -> ExitCode:
    """The code of one verdict; `is_wrong`: an INVALID one because a result was wrong at the gate."""
    if status is Status.INVALID and is_wrong:
        return ExitCode.WRONG
    return CODES.get(status, ExitCode.UNDECIDED)
