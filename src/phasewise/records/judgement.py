"""What `phasewise judge` found: the verdict on each shape, with all that it was decided from."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.records.base import Interval, Record, Scalar, Seconds
from phasewise.records.exit_code import ExitCode, choose_code, choose_worst
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Allowance
from phasewise.records.validate import CaseValidation
from phasewise.records.verdict import Status

WRONG = "wrong"
GUARD = "guard"
# raised by one when a field changes its meaning or goes away
SCHEMA = 3


class Best(Record, frozen=True, kw_only=True):
    """The least time that a call of the candidate could take, at the rates that this machine was measured to reach."""

    seconds: Seconds
    # what bounds it: "memory", "cache", "compute" or "launch"
    bound: str
    # of the base's call: floating-point operations of products, convolutions and attention, and bytes of arguments, weights and results, each once
    flops: float
    bytes: float


class Judgement(Record, frozen=True, kw_only=True):
    """The verdict on one shape, with all that it was decided from."""

    status: Status
    # a Reason, "wrong" or "guard"
    reason: str = ""
    detail: str = ""
    # of what the candidate raised, from its first frame on
    traceback: str = ""
    # sizes that were set for this verdict; empty for the module's own
    shape: dict[str, Scalar] = {}
    # what may be behind it: weights that were guessed, modules in training mode
    doubts: tuple[str, ...] = ()
    # how many times as fast the candidate is; None where it is wrong or was not timed
    ratio: Interval | None = None
    # what the ratio has to clear: how far two processes of the base stray, as a share
    noise_limit: float | None = None
    base_s: Seconds | None = None
    candidate_s: Seconds | None = None
    best: Best | None = None
    # largest error of the candidate in units of what is allowed, at the gate and in what was timed
    worst: float | None = None
    # what the reference was computed in, and how far a result may lie from it
    reference: str
    allowance: Allowance | None = None
    # as many times the tier, since the base itself is off by more than that allows
    widened: float = 1.0
    gate: CaseValidation | None = None
    measurement: CaseMeasurement | None = None

    @property
    def exit_code(self) -> ExitCode:
        return choose_code(self.status, is_wrong=self.reason == WRONG)

    @property
    def share(self) -> float | None:
        """Of the best possible time in the candidate's."""
        return self.best.seconds / self.candidate_s if self.best is not None and self.candidate_s else None


class Match(Record, frozen=True, kw_only=True):
    """What `phasewise judge` found; its JSON is `docs/judge.schema.json`."""

    schema: int = SCHEMA
    # as they were named
    base: str
    candidate: str
    device: str
    # how processes of the candidate were kept apart; "" where they were not
    isolated: str = ""
    seconds: Seconds
    exit_code: ExitCode
    # one sentence
    next_step: str
    # at the module's own shape, then at each that was asked for; none after the first that is refused
    judgements: tuple[Judgement, ...]


def find_deciding(found: Sequence[Judgement]) -> Judgement:
    """The worst of the verdicts on several shapes."""
    worst = choose_worst(one.exit_code for one in found)
    return next(one for one in found if one.exit_code is worst)
