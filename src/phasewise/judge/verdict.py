"""From what a match saw to a verdict: wrong before slow, and a ratio only for what is right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from statistics import median
from typing import Any

from phasewise.records.base import Interval, Record, Seconds
from phasewise.records.errors import UserError
from phasewise.records.verdict import Failure, Reason, Status
from phasewise.stats import RatioEstimate, aa_floor, decide_status, estimate_ratio, trimmed_mean
from phasewise.stats.ratio import t_quantile

# the parent's clock may be ahead of the candidate's by this much more than of the base's, in the median of a set
CLOCK_S = 1e-3
CLOCK_SHARE = 0.02
# or by so many times what the way there and back varies by
CLOCK_SPREADS = 6
# new contents may cost this much more than the same contents written again
REMEMBERED = 1.10
# one-sided 99 %, as both tails together
REFRESH_SPENT = 0.02
SUSPICIOUS_SETS = 2


class ExitCode(IntEnum):
    """What `phasewise judge` ends with."""

    FASTER = 0
    USAGE = 2
    SAME = 10
    SLOWER = 11
    UNDECIDED = 12
    WRONG = 20
    CHEAT = 21
    CRASH = 30
    OURS = 70


class Look(Record, frozen=True, kw_only=True):
    """One result that was compared."""

    player: str
    # against the float64 reference; else against the base's result on the same batch
    known: bool
    # largest error in units of what is allowed, of the result `name`
    worst: float | None = None
    max_abs: float | None = None
    name: str = ""
    # why it is wrong; "" if it is not
    wrong: str = ""


class Timing(Record, frozen=True, kw_only=True):
    """One block of one player."""

    player: str
    steps: int
    # by the parent's clock, which decides, and by the player's own
    parent_s: Seconds
    own_s: Seconds


class Round(Record, frozen=True, kw_only=True):
    """One block of every player, in the order in which they were run."""

    timings: tuple[Timing, ...]


class Refresh(Record, frozen=True, kw_only=True):
    """One pass of the candidate over new contents, and over the same contents written again."""

    fresh_s: Seconds
    sham_s: Seconds


class Set(Record, frozen=True, kw_only=True):
    """What one set of fresh processes showed."""

    looks: tuple[Look, ...]
    rounds: tuple[Round, ...]
    refreshes: tuple[Refresh, ...]
    # of a block, by player
    steps: dict[str, int]
    # who failed, and why
    player: str = ""
    failure: Failure | None = None


class Judgement(Record, frozen=True, kw_only=True):
    """The verdict with all that it was decided from."""

    schema: int = 1
    base: str
    candidate: str
    device: str
    status: Status
    reason: str
    detail: str = ""
    # how many times as fast the candidate is; None where it is wrong or was not timed
    ratio: Interval | None = None
    # what the ratio has to clear: how far two processes of the base stray
    noise_limit: float | None = None
    base_s: Seconds | None = None
    candidate_s: Seconds | None = None
    # what the reference was computed in, and how far a result may lie from it
    reference: str = "float64"
    rtol: float = 0.0
    atol: float = 0.0
    # largest error of the candidate in units of what is allowed
    worst: float | None = None
    looks: int = 0
    sets: tuple[Set, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        if self.status is Status.INVALID:
            return ExitCode.WRONG if self.reason == "wrong" else ExitCode.CHEAT
        return {
            Status.FASTER: ExitCode.FASTER, Status.SAME: ExitCode.SAME, Status.SLOWER: ExitCode.SLOWER,
            Status.FAILED: ExitCode.CRASH,
        }.get(self.status, ExitCode.UNDECIDED)  # fmt: skip


def conclude(sets: Sequence[Set], targets: Mapping[str, str], device: str, told: Mapping[str, Any]) -> Judgement:
    """The verdict of a match.

    :raises UserError: the base itself strays from its own reference
    """
    looks = [look for found in sets for look in found.looks]
    own = [look for look in looks if look.player == "candidate"]
    about = {
        "base": targets["base"], "candidate": targets["candidate"], "device": device, "reference": told["dtype"],
        "rtol": told["tier"]["rtol"], "atol": told["tier"]["atol"], "looks": len(own), "sets": tuple(sets),
        "worst": max((look.worst for look in own if look.worst is not None), default=None),
    }  # fmt: skip
    wrong = next((look for look in looks if look.player == "base" and look.wrong), None)
    if wrong is not None:
        raise UserError(
            f"judge: the base strays from its own {told['dtype']} result ({wrong.wrong}); choose another tier or other inputs"
        )
    if any(found.failure is not None for found in sets):
        failure = next(found.failure for found in sets if found.failure is not None)
        return Judgement(status=Status.FAILED, reason=failure.reason, detail=failure.message, **about)
    wrong = next((look for look in own if look.wrong), None)
    if wrong is not None:
        return Judgement(status=Status.INVALID, reason="wrong", detail=wrong.wrong, **about)
    if detail := _find_clock(sets):
        return Judgement(status=Status.INVALID, reason=Reason.CLOCK, detail=detail, **about)
    if detail := _find_memory(sets):
        return Judgement(status=Status.INVALID, reason="remembers", detail=detail, **about)
    ratio = estimate_ratio([_log_ratios(found, "base", "candidate") for found in sets])
    control = estimate_ratio([_log_ratios(found, "base", "control") for found in sets])
    limit = aa_floor([control])
    decided = decide_status(ratio, aa_floor=limit)
    return Judgement(
        status=Status(decided.status), reason=decided.reason, ratio=_interval(ratio), noise_limit=math.expm1(limit),
        base_s=_step_s(sets, "base"), candidate_s=_step_s(sets, "candidate"), **about,
    )  # fmt: skip


def _log_ratios(found: Set, slower: str, faster: str) -> list[float]:
    """log(time a step of one / of the other), one a round."""
    pairs = [{timing.player: timing.parent_s / timing.steps for timing in one.timings} for one in found.rounds]
    return [math.log(pair[slower] / pair[faster]) for pair in pairs]


def _step_s(sets: Sequence[Set], player: str) -> float:
    return median(timing.parent_s / timing.steps for found in sets for timing in _timings(found, player))


def _find_clock(sets: Sequence[Set]) -> str:
    """Why the candidate's clock can't be believed; "" if it can.

    The way there and back is as long for every player, on a busy machine too: so the base and its control say what it takes, and how
    much that varies. A clock that is wrong is wrong in every set.
    """
    excesses = []
    for found in sets:
        ways = {player: _ways_s(found, player) for player in ("base", "control", "candidate")}
        others = [*ways["base"], *ways["control"]]
        usual = median(others)
        spread = median(abs(way - usual) for way in others)
        block = median(timing.parent_s for timing in _timings(found, "candidate"))
        excesses.append((median(ways["candidate"]) - usual, max(CLOCK_S, CLOCK_SHARE * block, CLOCK_SPREADS * spread)))
    if excesses and all(excess > allowed for excess, allowed in excesses):
        excess, allowed = min(excesses)
        return f"blocks took {excess * 1e3:.3g} ms longer than the candidate's process says, {allowed * 1e3:.3g} ms are allowed"
    return ""


def _ways_s(found: Set, player: str) -> list[float]:
    """What the parent's clock has beyond the player's own, of each block."""
    return [timing.parent_s - timing.own_s for timing in _timings(found, player)]


def _timings(found: Set, player: str) -> list[Timing]:
    return [timing for one in found.rounds for timing in one.timings if timing.player == player]


def _find_memory(sets: Sequence[Set]) -> str:
    """Why the candidate seems to remember contents: new ones cost more in two sets; "" if they don't."""
    bounds = []
    for found in sets:
        if len(found.refreshes) < 2:
            continue
        logs = [math.log(pair.fresh_s / pair.sham_s) for pair in found.refreshes]
        centre = trimmed_mean(logs)
        bounds.append(centre.estimate - t_quantile(REFRESH_SPENT, centre.df) * centre.standard_error)
    suspicious = [low for low in bounds if low > math.log(REMEMBERED)]
    if len(suspicious) < SUSPICIOUS_SETS:
        return ""
    return (
        f"new contents take at least {math.exp(min(suspicious)):.2f} times as long as the same contents written again"
    )


def _interval(ratio: RatioEstimate) -> Interval:
    return Interval(estimate=ratio.estimate, low=ratio.low, high=ratio.high)
