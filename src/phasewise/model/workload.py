"""What a user writes: a workload, its cases, phases, targets and risks. Imports no torch.

Shape of a workload: `Switches` (a frozen dataclass of plain values, whose defaults are the baseline), a tuple of
`Phase`s that each set some switches, and a program module with `make_inputs`, `build`, and optionally `reference`, `work`, `rows`,
`audit` and `prepare`. All mistakes that can be seen without running anything are found by `model.check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from phasewise.model.fields import (
    ByteCount,
    ByteLimit,
    CheckName,
    Count,
    Gpus,
    Items,
    ModuleName,
    Name,
    NotNegative,
    Number,
    PerCent,
    Positive,
    ProgramName,
    Rated,
    Relative,
    Said,
    Size,
    Steps,
    SwitchName,
    Text,
    Tier,
    TimesBaseline,
    Version,
)
from phasewise.records.base import Scalar


class Unsupported(Exception):
    """Raised by `build`: this variant cannot be built here, with the reason; recorded as SKIPPED."""


class Shape(Mapping[str, Scalar]):
    """Sizes of one case, as attributes: `Shape(atoms=21).atoms`."""

    def __init__(self, **sizes: Scalar) -> None:
        self._sizes = dict(sorted(sizes.items()))

    def __getattr__(self, name: str) -> Any:
        sizes = self.__dict__.get("_sizes", {})
        if name in sizes:
            return sizes[name]
        raise AttributeError(f"shape has no size {name!r}; it has {', '.join(sizes) or 'none'}")

    def __getitem__(self, name: str) -> Scalar:
        return self._sizes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return f"Shape({', '.join(f'{name}={value!r}' for name, value in self._sizes.items())})"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One named piece of work; sizes that are absent are not run at that size."""

    tiny: Shape | None = None
    small: Shape | None = None
    full: Shape | None = None
    # "timed": placing the canonical batch is part of the step; "resident": it is there already
    inputs: Literal["timed", "resident"] = "timed"
    # steps that validation follows; at least four of a program with state
    steps: Steps = 3
    # "cold" flushes the L2 cache before each step, one step a block
    cache: Literal["steady", "cold"] = "steady"
    # cap on the memory of each worker, by size
    memory_limit_bytes: Mapping[Size, ByteLimit] = field(default_factory=dict)
    # by size, smaller shapes at which a baseline is measured that is too slow for this one; it is compared at these alone
    baseline_at: Mapping[Size, tuple[Shape, ...]] = field(default_factory=dict)
    scaling: Literal["weak", "strong"] = "weak"
    # False where programs have no `module`, such as a training step: no process is started to find that out
    export: bool = True
    # how many items are compared with the reference at `full`; all are compared with the baseline, or where that is too slow with the
    # eldest ancestor that passed its gate
    sample_items: Items | None = None


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a phase needs of the machine; a phase whose needs are unmet drops out of the stacks after it."""

    cuda: bool = False
    gpus: Gpus = 0
    capability: tuple[Version, Version] | None = None
    modules: tuple[ModuleName, ...] = ()
    memory_bytes: ByteCount = 0


@dataclass(frozen=True)
class Tolerance:
    """|error| <= atol + rtol |reference|, and at most `times_baseline` the baseline's own error."""

    rtol: Relative
    atol: NotNegative
    times_baseline: TimesBaseline = 1e3
    unit: Text = ""
    why: Text = ""


# float32 rounds at 6e-8: strict leaves room for sums of a thousand terms, moderate for reordered long sums,
# relaxed for bfloat16 and tf32 products
DEFAULT_TIERS: Mapping[Tier, Tolerance] = {
    "strict": Tolerance(1e-5, 1e-6, times_baseline=8),
    "moderate": Tolerance(1e-4, 1e-5, times_baseline=64),
    "relaxed": Tolerance(2e-2, 2e-3, times_baseline=1e6),
}


@dataclass(frozen=True)
class Idea:
    """A `because` that algebra and not a trace suggested."""

    text: Said


@dataclass(frozen=True)
class Risk:
    """What may go wrong with a phase, and the check, or the target that is missed, that says whether it did."""

    title: Said
    # a word, or per cent
    probability: Said | PerCent
    impact: Said
    symptom: Text = ""
    mitigation: Text = ""
    contingency: Text = ""
    # name of a check of the workload or of the core
    check: CheckName | None = None
    # name of a target of the workload: the risk came true if it is missed
    target: Said | None = None
    # why neither can tell
    by_hand: Said | None = None


@dataclass(frozen=True)
class Target:
    """A goal with up to three bounds; `against` is baseline, parent, absolute, a peer's name, or that of a phase with `keep=False`
    whose parent is what the goal is about: what it takes away is worth so much.

    Absolute bounds of time, memory, energy and utilisation are judged at the largest size that the case has.
    """

    metric: Said
    case: Name | None = None
    against: Name = "absolute"
    minimum: Number | None = None
    target: Number | None = None
    stretch: Number | None = None
    name: Text = ""
    unit: Text = ""
    # for numbers that a check returns: which way is better
    better: Literal["higher", "lower", ""] = ""
    # why what is measured is not what the target means; it is then neither reached nor missed, whatever the number
    disowned: Text = ""


@dataclass(frozen=True)
class Phase:
    """A named setting of switches, with the reason for it and what it should gain."""

    name: Name
    sets: Mapping[SwitchName, Scalar]
    # a finding id, or `Idea("...")`; "" where no reason is given
    because: Text | Idea = ""
    part: Name | None = None
    # speed-up over the parent: an interval that the author expects
    expect: tuple[Positive, Positive] | None = None
    # what the user's document promised
    documented: tuple[Positive, Positive] | None = None
    keep: bool = True
    must: Literal["INVALID"] | None = None
    # the phase this one is built on, where it is not the last kept one
    onto: Name | None = None
    needs: Needs = Needs()
    # cases it applies to; () = all
    cases: tuple[Name, ...] = ()
    tolerance: Tolerance | None = None
    targets: tuple[Target, ...] = ()
    risks: tuple[Risk, ...] = ()
    # one line for the summary table; the switches where it is empty
    method: Text = ""
    # why it stays in the stack although it gains nothing or loses by itself: the report quotes this in place of its advice
    stays: Text = ""


@dataclass(frozen=True)
class Check:
    """A function of `checks.py` (or of the core): `name` with dashes is the function with underscores."""

    name: CheckName
    # every variant, kept ones, or the end of the stack only
    when: Literal["every", "kept", "final"] = "every"
    cases: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Peer:
    """Another package's way to do the same work: a function of `peers.py` that returns a Program, or of `peer_<name>.py`, which no other peer's record loads."""

    name: Name
    # distribution whose version is recorded
    package: Text = ""
    needs: Needs = Needs()
    cases: tuple[Name, ...] = ()
    # the phase of ours that it is measured beside, where that is not the end of the stack: one that takes the same steps
    beside: Name | None = None
    # where a peer solves a smaller or different problem: the sentence that says so; it is then held to `<peer>_reference`, or
    # timed unchecked where there is none
    different: Text = ""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one step has to do at least."""

    items: Positive
    flops: NotNegative = 0.0
    # bytes that must cross device memory
    bytes: NotNegative = 0.0
    working_set_bytes: NotNegative = 0.0
    # whose measured rate of products bounds the flops
    dtype: Rated = "float32"
    # points that a step can't pass before all of it has got there, however it is written: a text's tokens but for the last
    barriers: Count = 0
    item: Said = "items"
    # the flops are those of one way to do it, as torch counts them: another may need fewer
    counted: bool = False


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Something to make fast. The first case is the headline."""

    summary: Said
    switches: type
    cases: Mapping[Name, Case]
    phases: tuple[Phase, ...]
    # module with make_inputs, build, ...; "" = the file that the workload stands in
    program: ProgramName = ""
    parts: Mapping[Name, tuple[Target, ...]] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    risks: tuple[Risk, ...] = ()
    checks: tuple[Check, ...] = ()
    peers: tuple[Peer, ...] = ()
    tiers: Mapping[Tier, Tolerance] = field(default_factory=lambda: DEFAULT_TIERS)
    # what must stand before torch is imported, from the switches
    environment: Callable[[Any], Mapping[str, str]] | None = None
    # things that were weighed and not done, with the reason
    considered: Mapping[Text, Text] = field(default_factory=dict)
    # other packages' ways that a reader would ask for and that were not measured, with the reason
    unmeasured: Mapping[Text, Text] = field(default_factory=dict)
