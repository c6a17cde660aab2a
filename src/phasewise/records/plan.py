"""The plan: what a variant's records depend on, and what the report tells about it."""

from __future__ import annotations

from enum import StrEnum

from phasewise.records.base import SCHEMA, Bytes, Record, Scalar, Seconds
from phasewise.records.promise import Promise


class Kind(StrEnum):
    """What a variant is for."""

    BASELINE = "baseline"
    PHASE = "phase"
    WITHOUT = "without"
    ONLY = "only"
    # of records before there was a `ControlMeasurement`: a variant beside itself
    CONTROL = "aa"
    PEER = "peer"


class Budget(Record, frozen=True, kw_only=True):
    """How long to measure; one tier of the configuration."""

    # rounds of one set of processes, at least and at most
    min_rounds: int = 12
    max_rounds: int = 24
    # fresh sets of processes, at least and at most
    min_sets: int = 3
    max_sets: int = 6
    # a block lasts at least this long and this many steps
    block_s: Seconds = 0.02
    block_steps: int = 5
    # stop adding sets when this has been spent on one comparison since its first set was built: programs may compile until then
    seconds: Seconds = 180.0
    # kill a worker that has not answered for this long
    timeout_s: Seconds = 600.0
    # an arm slower than this a step is compared in a fixed number of single steps, and has no control
    slow_step_s: Seconds = 1.0
    # window of an energy reading; NVML updates its counter every 20 to 100 ms
    energy_window_s: Seconds = 2.0


class Allowance(Record, frozen=True, kw_only=True):
    """How far a result may lie from the reference: |error| <= atol + rtol |reference|."""

    rtol: float
    atol: float
    # and at most so many times the baseline's own error
    times_baseline: float = 1e3
    unit: str = ""
    why: str = ""


class PlannedCase(Record, frozen=True, kw_only=True):
    """One case of a variant, at the size of the run."""

    case: str
    shape: dict[str, Scalar]
    # switches that differ from the baseline in this case: phases that do not apply to it leave it alone
    switches: dict[str, Scalar] = {}
    # what it is compared with (a peer: the variant of ours it is set against), and its ancestors, nearest first
    parent: str | None = None
    ancestors: tuple[str, ...] = ()
    # "timed": the canonical batch is placed inside the step; "resident": it is there already
    inputs: str = "timed"
    # steps that validation follows
    steps: int = 3
    # "steady", or "cold": the L2 cache is flushed before each step
    cache: str = "steady"
    memory_limit_bytes: Bytes | None = None
    baseline_at: tuple[dict[str, Scalar], ...] = ()
    scaling: str = "weak"
    # which outputs a sample of items stands for at `full`; None = all items
    sample_items: int | None = None


class PlannedCheck(Record, frozen=True, kw_only=True):
    """A check of the workload that this variant has to pass."""

    name: str
    cases: tuple[str, ...]


class VariantPlan(Record, frozen=True, kw_only=True):
    """All that the records of one variant depend on: the only input that makes its rules run again."""

    schema: int = SCHEMA
    # raised by hand when a stage changes what it writes for the same plan
    protocol: int
    workload: str
    # how to load the workload: an import name or a path relative to the project
    source: str
    run: str
    size: str
    device: str
    variant: str
    kind: Kind
    phase: str | None = None
    # of its first case, and of any of its cases
    parent: str | None = None
    ancestors: tuple[str, ...] = ()
    kept: bool = True
    must: str | None = None
    switches: dict[str, Scalar] = {}
    # a peer's name
    peer: str | None = None
    environment: dict[str, str] = {}
    # processes of the arm; more than one is a process group
    ranks: int = 1
    # why nothing of this variant can run here
    skip: str | None = None
    # why it is validated and not timed here
    untimed: str | None = None
    cases: tuple[PlannedCase, ...]
    tier: str
    allowance: Allowance
    budget: Budget
    checks: tuple[PlannedCheck, ...] = ()
    # what profile and export do for this variant; on disk in a `CapturePlan` of its own
    profilers: tuple[str, ...] = ("torch",)
    exporters: tuple[str, ...] = ()
    # the cases that are exported, and those that the Nsight tools capture; None is all
    exported: tuple[str, ...] | None = None
    nsight: tuple[str, ...] | None = None
    seed: int = 0
    # digest of the one lock file, and of the definitions that this variant can reach
    lock: str
    sources: str

    def case(self, name: str) -> PlannedCase:
        """The plan of one of its cases."""
        return next(planned for planned in self.cases if planned.case == name)


class CapturePlan(Record, frozen=True, kw_only=True):
    """What profile and export make of a variant: a phase that becomes or ceases to be the last is not measured again for it."""

    schema: int = SCHEMA
    profilers: tuple[str, ...] = ()
    exporters: tuple[str, ...] = ()
    exported: tuple[str, ...] | None = None
    nsight: tuple[str, ...] | None = None


class PlannedRisk(Record, frozen=True, kw_only=True):
    """One line of the risk register."""

    title: str
    probability: str
    impact: str
    symptom: str = ""
    mitigation: str = ""
    contingency: str = ""
    check: str | None = None
    target: str | None = None
    by_hand: str | None = None


class PlannedTarget(Record, frozen=True, kw_only=True):
    """A goal: a metric of a case against something, with up to three bounds."""

    name: str
    metric: str
    case: str
    against: str
    # part the target belongs to; None for the whole stack
    part: str | None = None
    # phase it belongs to
    phase: str | None = None
    minimum: float | None = None
    target: float | None = None
    stretch: float | None = None
    # "higher" or "lower"
    better: str = "higher"
    unit: str = ""
    # the size that the bound is meant for, where it means nothing at another; "" = any
    size: str = ""
    # why the study does not count what is measured as this target; "" = it counts
    disowned: str = ""


class PlannedPhase(Record, frozen=True, kw_only=True):
    """What the author of a phase said about it, before it was measured."""

    phase: str
    variant: str
    part: str | None
    # a finding id, or the author's idea
    because: str
    because_is_idea: bool
    expect: tuple[float, float] | None
    documented: tuple[float, float] | None
    method: str
    kept: bool
    must: str | None
    cases: tuple[str, ...]
    risks: tuple[PlannedRisk, ...] = ()
    # why it stays in the stack although it is no faster; "" = no reason is given
    stays: str = ""


class PlannedVariant(Record, frozen=True, kw_only=True):
    """One row of the run: enough to find its records."""

    variant: str
    kind: Kind
    phase: str | None
    parent: str | None
    ancestors: tuple[str, ...]
    kept: bool
    # those that do not follow from the parent's row and `sets`: of the baseline all, of others few, where the parent's row is of another case
    switches: dict[str, Scalar] = {}
    # switches that differ from the parent's
    sets: dict[str, Scalar]
    skip: str | None = None
    untimed: str | None = None
    cases: tuple[str, ...] = ()
    # of a peer that does not give what ours does: what it does instead
    different: str = ""


class PreparePlan(Record, frozen=True, kw_only=True):
    """All that the prepare stage of a run depends on."""

    schema: int = SCHEMA
    workload: str
    source: str
    run: str
    size: str
    device: str
    # shape of each case at this size
    shapes: dict[str, dict[str, Scalar]]
    seed: int = 0
    lock: str
    sources: str


class RunPlan(Record, frozen=True, kw_only=True):
    """The plan of one workload on one machine: phases, parts, targets, risks; plan-time only."""

    schema: int = SCHEMA
    workload: str
    source: str
    run: str
    size: str
    device: str
    summary: str
    tier: str
    cases: tuple[str, ...]
    parts: tuple[str, ...]
    phases: tuple[PlannedPhase, ...]
    variants: tuple[PlannedVariant, ...]
    # variant that all kept phases end in, by case
    stack: dict[str, str]
    targets: tuple[PlannedTarget, ...] = ()
    risks: tuple[PlannedRisk, ...] = ()
    considered: tuple[tuple[str, str], ...] = ()
    # other packages' ways that were not measured, with the reason
    unmeasured: tuple[tuple[str, str], ...] = ()
    # what the user's document calls itself, and what it promises; "" = there is none
    document: str = ""
    promises: tuple[Promise, ...] = ()
    # dotted name of the module that holds `build`; "" = on record before it was
    program: str = ""
    # digest of the code that judges and renders: both are renewed when it changes, and nothing is measured again
    code: str = ""

    def __post_init__(self) -> None:
        if self.cases and not any(row.kind is Kind.BASELINE for row in self.variants):
            raise ValueError("no baseline is planned")
        missing = {*self.stack.values(), *(phase.variant for phase in self.phases)} - {
            row.variant for row in self.variants
        }
        if missing:
            raise ValueError(f"no such variant is planned: {', '.join(sorted(missing))}")

    def switches_of(self, variant: str) -> dict[str, Scalar]:
        """All switches of a variant in its first case; empty for one that is not planned."""
        rows = {row.variant: row for row in self.variants}
        chain = []
        while variant in rows:
            chain.append(rows.pop(variant))
            variant = chain[-1].parent or ""
        found: dict[str, Scalar] = {}
        for row in reversed(chain):
            found |= row.sets | row.switches
        return found
