"""From an estimate to a status: faster, the same, slower, or why that cannot be told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from phasewise.stats.bimodal import Modes
from phasewise.stats.chances import SAME_MARGIN, Chances, find_chances
from phasewise.stats.floor import UNMEASURED_FLOOR
from phasewise.stats.ratio import RatioEstimate

# statuses and reason codes are spelt as in phasewise.records.verdict
StatusName = Literal["FASTER", "SAME", "SLOWER", "INCONCLUSIVE"]
ReasonName = Literal[
    "interval-clears-floor",
    "within-one-percent",
    "few-rounds",
    "one-set",
    "process-spread",
    "below-aa-floor",
    "multiplicity",
    "throttled",
    "neighbour",
    "bimodal",
    "bistable",
    "warm-up",
    "clock",
]

# what one set of processes alone may claim: launch-bound processes were up to twice as slow as others of the same program, whole
LEAST_OF_ONE_SET = 3.0
# with more rounds dropped than this the machine was not itself
MOST_DROPPED = 0.20


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditions:
    """What the rounds say of the machine while they were taken."""

    # rounds dropped for clocks or throttling, of all that were run
    dropped_share: float = 0.0
    # somebody else used the GPU or the cores
    has_neighbour: bool = False
    modes: Modes | None = None
    # log-ratio that few sets alone must clear, from `jump_limit`; that by which an arm was still warming up, from `find_warming`
    jumps: float = 0.0
    warming: float = 0.0
    # the blocks of an arm are of two states
    bistable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A status with the reason code that led to it."""

    status: StatusName
    reason: ReasonName


def decide_status(
    estimate: RatioEstimate,
    *,
    aa_floor: float | None,
    adjusted: Chances | None = None,
    cycles: RatioEstimate | None = None,
    conditions: Conditions | None = None,
) -> Decision:
    """The status of one comparison.

    `aa_floor`: from `floor.aa_floor`, a log-ratio; 0 to judge a control itself; None where the run has no A/A
    control, and then only effects over 10 % can be claimed. `adjusted`: from `adjust_chances`, if the report makes
    several comparisons. A single set of processes claims nothing under `LEAST_OF_ONE_SET` either way. `cycles`: the same comparison in time times SM clock; a status that it does not share may be
    the boost clock's doing.
    """
    conditions = conditions or Conditions()
    if conditions.has_neighbour:
        return _inconclusive("neighbour")
    if conditions.dropped_share > MOST_DROPPED:
        return _inconclusive("throttled")
    floor = UNMEASURED_FLOOR if aa_floor is None else aa_floor
    decision = _decide_among(estimate, floor, adjusted)
    if conditions.bistable and decision.reason == "process-spread":
        return _inconclusive("bistable")
    if decision.status != "INCONCLUSIVE" and estimate.sets == 1 and not _is_clear(estimate):
        return _inconclusive("one-set")
    if estimate.method == "own-sets" and not _clears(decision, estimate, conditions.jumps):
        return _inconclusive("bistable")
    if not _clears(decision, estimate, conditions.warming):
        return _inconclusive("warm-up")
    if conditions.modes is not None and not _holds_in_both(decision, conditions.modes, floor):
        return _inconclusive("bimodal")
    if cycles is not None and decision.status != "INCONCLUSIVE":
        in_cycles = _decide(cycles, floor, find_chances(cycles))
        if in_cycles.status != decision.status:
            return _inconclusive("clock")
    return decision


def _decide_among(ratio: RatioEstimate, floor: float, adjusted: Chances | None) -> Decision:
    """What the comparison says alone, as far as it survives the correction for all the others.

    No chance takes every round beyond what processes do to each other, however many comparisons there are.
    """
    alone = _decide(ratio, floor, find_chances(ratio))
    if adjusted is None or alone.status == "INCONCLUSIVE" or ratio.nearest >= math.log(LEAST_OF_ONE_SET):
        return alone
    among = _decide(ratio, floor, adjusted)
    return _inconclusive("multiplicity") if among.status == "INCONCLUSIVE" else among


def _decide(ratio: RatioEstimate, floor: float, chances: Chances) -> Decision:
    """A difference needs an interval without 1, its p-value, and an estimate above the floor; equivalence its p-value.

    The estimate, not the bound, is compared with the floor: the floor is itself how far estimates stray when
    nothing differs, so the bound would count the same noise twice.
    """
    error = 1.0 - ratio.level
    differs = chances.differs <= error and not ratio.low <= 1.0 <= ratio.high
    if differs and abs(ratio.log_estimate) > floor:
        return Decision(status="FASTER" if ratio.estimate > 1.0 else "SLOWER", reason="interval-clears-floor")
    if chances.same < error:
        return Decision(status="SAME", reason="within-one-percent")
    if differs:
        return _inconclusive("below-aa-floor")
    return _inconclusive("process-spread" if _sets_dominate(ratio) else "few-rounds")


def _is_clear(ratio: RatioEstimate) -> bool:
    """Whether a set alone may claim it: every round lies beyond what processes do to each other, or the whole interval."""
    return max(ratio.nearest, abs(ratio.log_estimate) - ratio.half_width) >= math.log(LEAST_OF_ONE_SET)


def _clears(decision: Decision, ratio: RatioEstimate, doubt: float) -> bool:
    """Whether the claim would stand if the log-ratio were off by `doubt`; what claims nothing always does."""
    if decision.status == "SAME":
        return doubt == 0.0 or abs(ratio.log_estimate) + doubt < math.log1p(SAME_MARGIN)
    return decision.status == "INCONCLUSIVE" or abs(ratio.log_estimate) > doubt


def _sets_dominate(ratio: RatioEstimate) -> bool:
    """Whether fresh sets, not more rounds, would narrow the interval."""
    if ratio.between_sd is None or ratio.within_sd is None:
        return False
    return ratio.between_sd**2 > ratio.within_sd**2 * ratio.sets / ratio.rounds


def _holds_in_both(decision: Decision, modes: Modes, floor: float) -> bool:
    """Whether a program in either mode alone would get the same status."""
    if decision.status == "FASTER":
        return modes.low > floor
    if decision.status == "SLOWER":
        return modes.high < -floor
    return decision.status == "SAME" and max(abs(modes.low), abs(modes.high)) < math.log1p(SAME_MARGIN)


def _inconclusive(reason: ReasonName) -> Decision:
    return Decision(status="INCONCLUSIVE", reason=reason)
