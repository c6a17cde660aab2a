"""Findings, predictions and the verdicts of a run: the analyser's word, made from records only."""

from __future__ import annotations

from phasewise.records.base import SCHEMA, Bytes, Interval, Joules, Quantity, Record, Scalar, Seconds
from phasewise.records.cost import StageCost
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind
from phasewise.records.predict import Prediction
from phasewise.records.promise import Kept, Promise
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level, Reason, Status, Verdict


class Finding(Record, frozen=True, kw_only=True):
    """One bottleneck that the analyser claims, or why it will not judge."""

    finding: str
    # "found", "absent" or "abstained"
    outcome: str
    # why it abstained
    reason: str = ""
    # milliseconds of the step that it claims and no other finding does, in seconds
    seconds: Seconds = 0.0
    share: float = 0.0
    # what was seen, what the threshold is
    observed: dict[str, Quantity] = {}
    threshold: float | None = None
    evidence: tuple[str, ...] = ()
    advice: str = ""
    # a phase of the plan that answers it
    suggests: str | None = None
    # gain of the whole step if it alone were cured
    gain: Interval | None = None
    # where the gain comes from: "critical-path" or "probe"
    basis: str = "critical-path"


class CaseAnalysis(Record, frozen=True, kw_only=True):
    """What holds back one variant in one case."""

    case: str
    findings: tuple[Finding, ...] = ()
    # fraction of the measured floor that the step reaches, and which floor it is
    floor_s: Seconds | None = None
    floor_fraction: float | None = None
    floor_kind: str = ""


class VariantAnalysis(Record, frozen=True, kw_only=True):
    """The analyse stage of one variant."""

    schema: int = SCHEMA
    workload: str
    run: str
    variant: str
    # digest of the peaks and the code that it was judged by; "" in older records
    judged_by: str = ""
    cases: tuple[CaseAnalysis, ...]
    # for phases built on this variant, where these have no record of the predict stage; a rule's interval is its claim there
    predictions: tuple[Prediction, ...] = ()


# outcomes of a risk
CAME_TRUE = "came true"
DID_NOT = "did not come true"
NOT_CHECKED = "not checked"
BY_HAND = "by hand"


class RiskResult(Record, frozen=True, kw_only=True):
    """What became of one risk."""

    title: str
    # one of those above
    outcome: str
    evidence: str = ""


class Row(Record, frozen=True, kw_only=True):
    """One variant in one case, as the tables show it."""

    variant: str
    kind: Kind
    phase: str | None
    part: str | None
    parent: str | None
    kept: bool
    switches: dict[str, Scalar]
    # switches that differ from the parent's
    sets: dict[str, Scalar]
    verdict: Verdict
    # time of one step, with its interval
    time_s: Interval | None = None
    p50_s: Seconds | None = None
    p99_s: Seconds | None = None
    # for which the GPU is busy in a step, by the trace of a block that is no part of any ratio; None on a CPU
    busy_s: Seconds | None = None
    # whether that is less than half of the step
    host_bound: bool = False
    # least and largest median of a process set
    range_s: tuple[float, float] | None = None
    items_per_s: float | None = None
    level: Level = Level.NONE
    documented: tuple[float, float] | None = None
    expected: tuple[float, float] | None = None
    # by the rule of the finding that it answers, from the parent's profile
    predicted: Prediction | None = None
    validation: Outcome = Outcome.SKIPPED
    validation_message: str = ""
    # largest error over its allowance, and the same as a relative error
    worst: float | None = None
    max_error: float | None = None
    peak_memory_bytes: Bytes | None = None
    energy_j_per_item: Joules | None = None
    # build and first step with empty compile caches
    first_step_s: Seconds | None = None
    # steps after which the longer first step has paid for itself
    pays_after_steps: float | None = None
    floor_fraction: float | None = None
    risks: tuple[RiskResult, ...] = ()
    rounds: int = 0
    sets_of_processes: int = 0
    dropped_rounds: int = 0


class PeerRow(Record, frozen=True, kw_only=True):
    """Another package doing the same work."""

    name: str
    version: str
    # the variant of ours that it is set against
    variant: str
    verdict: Verdict
    validation: Outcome
    validation_message: str = ""
    time_s: Interval | None = None
    # its time per item over ours: above 1, we are faster
    ratio: Interval | None = None
    # whether it gives what ours does, or what it does instead
    same_output: bool = True
    different: str = ""


class Control(Record, frozen=True, kw_only=True):
    """The A/A control of one case."""

    variant: str
    ratio: Interval | None
    # smallest |ratio - 1| that a claim must clear
    floor: float | None
    covers_zero: bool | None
    status: str = ""


class TargetResult(Record, frozen=True, kw_only=True):
    """One target with what was reached."""

    name: str
    metric: str
    unit: str
    case: str
    against: str
    part: str | None
    phase: str | None
    value: float | None
    low: float | None
    high: float | None
    minimum: float | None
    target: float | None
    stretch: float | None
    level: Level
    # why there is no value, or what keeps it from a higher level
    reason: str = ""


class PromiseResult(Record, frozen=True, kw_only=True):
    """One promise with what became of it."""

    promise: Promise
    outcome: Kept
    # where it was judged; "" = in no one case
    case: str = ""
    # variant that its phase ends in
    variant: str = ""
    # the number that it was judged by
    measured: TargetResult | None = None
    # what a check or risk found, or why there is no number
    evidence: str = ""


class SmallerShape(Record, frozen=True, kw_only=True):
    """A baseline that is too slow for the shape of its case, at one that it can run."""

    shape: dict[str, Scalar]
    items: float
    # of one step, and elements that they read and write; 0 where nothing was counted
    operators: int = 0
    elements: int = 0
    # that were timed
    blocks: int
    # a single block's has no width
    step_s: Interval
    # speed-up of the end of the stack in the same rounds, at this shape alone
    speedup: Interval | None = None


class Rung(Record, frozen=True, kw_only=True):
    """One time of a case, as the chart of its times draws it."""

    # a variant, or a peer's name
    name: str
    # "baseline", "phase", "peer" or "best"
    kind: str
    # of one step, by the ratios down to the end of the stack
    time_s: Interval
    # over its parent, or a peer's time over ours
    ratio: Interval | None = None


class PartResult(Record, frozen=True, kw_only=True):
    """Where a part of the plan ended."""

    part: str
    variant: str | None
    # over the baseline
    speedup: Interval | None
    level: Level
    # whether the speed-up is a product of ratios
    chained: bool = False
    # what may be claimed of it
    status: Status | None = None


class CaseResult(Record, frozen=True, kw_only=True):
    """One case of a run, all variants."""

    case: str
    items: float
    item: str
    # declared floor at the measured peaks
    floor_s: Seconds | None
    floor_kind: str
    rows: tuple[Row, ...]
    stack: str | None
    stack_speedup: Interval | None
    # whether it is a product of ratios; and what it is at least, where it has no interval
    stack_chained: bool = False
    stack_at_least: float | None = None
    stack_level: Level
    # what the A/A floor of this case allows to claim of the speed-up; None where there is none
    stack_status: Status | None = None
    stack_reason: Reason = Reason.NONE
    control: Control | None
    baseline_control: Control | None = None
    # where the baseline was timed instead of at this shape, the smallest first
    smaller: tuple[SmallerShape, ...] = ()
    peers: tuple[PeerRow, ...] = ()
    # the fastest of the peers in the headline; None where it has none
    strongest_peer: str | None = None
    parts: tuple[PartResult, ...] = ()
    # its times, the slowest program of the stack first
    ladder: tuple[Rung, ...] = ()


class NextStep(Record, frozen=True, kw_only=True):
    """What to do next: one finding with one cure, in all cases where it holds time."""

    # where it holds most first
    cases: tuple[str, ...]
    finding: str
    advice: str
    phase: str | None
    # of a step of the first case, at most
    seconds: Seconds = 0.0
    # of a step of the first case, if it alone were cured
    gain: Interval | None


class Analysis(Record, frozen=True, kw_only=True):
    """The analyse stage of a whole run: all that the report shows, computed once."""

    schema: int = SCHEMA
    workload: str
    run: str
    # commits that the records were made at, machines they were made on
    commits: tuple[str, ...]
    machines: tuple[str, ...]
    # whose peaks the floors come from; the next run on such a GPU writes its record over, with more or fewer of them
    machine: Machine | None = None
    cases: tuple[CaseResult, ...]
    targets: tuple[TargetResult, ...] = ()
    risks: tuple[RiskResult, ...] = ()
    promises: tuple[PromiseResult, ...] = ()
    # the one that holds the most time first
    next_steps: tuple[NextStep, ...] = ()
    # those that took any time, in the order of the flow
    costs: tuple[StageCost, ...] = ()
    # what the author has to know first: kept phases that lost, gates that did not hold, holes
    alarms: tuple[str, ...] = ()
