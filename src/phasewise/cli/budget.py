"""A deadline for the whole graph: a job that would not fit is not started."""

from __future__ import annotations

import os
import re
import time

from phasewise.records.errors import UserError

# seconds since the epoch; set by `phasewise run --budget`
DEADLINE = "PHASEWISE_DEADLINE"
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of "90", "90s", "8m" or "1.5h"; raises UserError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise UserError(f"--budget: {text!r} is no duration; write 90s, 8m or 1.5h")
    return float(match[1]) * UNITS[match[2]]


def must_fit(job: str, seconds: float) -> None:
    """Raise UserError if `job`, which may take `seconds`, would end after the deadline of this run."""
    deadline = os.environ.get(DEADLINE)
    if deadline is None:
        return
    left = float(deadline) - time.time()
    if seconds > left:
        raise UserError(
            f"{job}: may take {seconds:.0f} s and {max(left, 0):.0f} s of the budget are left, so it was not started; "
            "call the same command again to go on"
        )
