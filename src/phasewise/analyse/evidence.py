"""What a finding may look at: one variant in one case, with the machine it ran on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from phasewise.analyse.claims import KERNEL, Ask, Pools
from phasewise.analyse.floor import Floor
from phasewise.model.kernel_names import shorten_kernel
from phasewise.records.base import Bytes, Quantity, Seconds
from phasewise.records.machine import Machine
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import CaseProfile, Kernel, Operator
from phasewise.records.verdict import Failure

NEEDS_CUDA = "needs a CUDA trace"
NOT_ATTRIBUTED = "the step is replayed as a CUDA graph, which hides its kernels; profile it without its graphs"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The records of one variant in one case."""

    profile: CaseProfile | None
    machine: Machine
    work: CaseWork | None = None
    floor: Floor | None = None
    # untraced time of a step; None where it was not measured
    step_s: Seconds | None = None
    pools: Pools | None = None
    # why the timed process could not do its work
    failure: Failure | None = None
    # cap on the memory of a worker
    memory_limit_bytes: Bytes | None = None
    # peak of the timed process
    peak_memory_bytes: Bytes | None = None

    @property
    def is_cuda(self) -> bool:
        return self.machine.kind == "cuda"

    @property
    def trace(self) -> CaseProfile:
        """The profile, which `lacks` has to have found."""
        assert self.profile is not None
        return self.profile

    @property
    def time(self) -> Pools:
        """The parts of the step, which `lacks` has to have found."""
        assert self.pools is not None
        return self.pools

    def lacks(self, *needs: str) -> str:
        """Why a finding has to abstain, "" if it has all that it needs.

        Needs: "breakdown", "kernels", "operators", "counters", "cuda", "floor", "peaks".
        """
        if self.profile is None:
            return "there is no profile of this variant"
        if self.profile.failure is not None:
            return f"the profile failed ({self.profile.failure.reason}): {self.profile.failure.message}"
        if "cuda" in needs and not self.is_cuda:
            return NEEDS_CUDA
        if "peaks" in needs and self.machine.peaks is None:
            return "the machine's peaks were not measured; run phasewise prepare --machine"
        if "floor" in needs and self.floor is None:
            return "the workload declares no work for this case, or the machine's peaks were not measured"
        if "breakdown" in needs and self.is_hidden:
            return NOT_ATTRIBUTED
        if "breakdown" in needs and (self.pools is None or self.pools.step_s <= 0.0):
            return "the trace holds no complete step"
        if "kernels" in needs and not self.profile.kernels:
            return "the trace names no kernels"
        if "operators" in needs and not self.profile.operators:
            return "the trace names no operators"
        if "counters" in needs and not self.profile.counters:
            return "needs the counters of Nsight Compute, which were not captured"
        return ""

    @property
    def is_hidden(self) -> bool:
        """Whether a replay hides kernels, and nothing without its graphs stands in for it."""
        return self.trace.attributed_by == "none"

    def share(self, seconds: Seconds) -> float:
        """Share of the step."""
        return seconds / self.time.step_s

    def device_time(self, operators: Sequence[Operator]) -> Seconds:
        """Untraced seconds of the kernels that these operators launched on the device."""
        device = sum(operator.device_s for operator in operators)
        known = sum(kernel.seconds for kernel in self.trace.kernels)
        return device / known * self.time.of(KERNEL) if known > 0.0 else 0.0

    def rows(self, keep: Callable[[Kernel], bool]) -> list[tuple[int, Kernel, Seconds]]:
        """Kernels that `keep` wants: index, record, untraced seconds a step."""
        rows = enumerate(self.trace.kernels)
        return [(index, kernel, self.time.kernels[index]) for index, kernel in rows if keep(kernel)]


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What one finding concluded, before the seconds are dealt out."""

    outcome: str
    reason: str = ""
    asks: tuple[Ask, ...] = ()
    observed: dict[str, Quantity] = field(default_factory=dict)
    threshold: float | None = None
    evidence: tuple[str, ...] = ()
    advice: str = ""


Find = Callable[[Evidence], Judgement]


def abstain(reason: str) -> Judgement:
    """No judgement, with the reason."""
    return Judgement(outcome="abstained", reason=reason)


def absent(threshold: float, **observed: Quantity) -> Judgement:
    """Looked for and not there."""
    return Judgement(outcome="absent", threshold=threshold, observed=observed)


def ask_rows(rows: list[tuple[int, Kernel, Seconds]], least: float, most: float) -> tuple[Ask, ...]:
    """All the time of these kernels."""
    return tuple(Ask(pool=f"{KERNEL}:{index}", seconds=seconds, least=least, most=most) for index, _, seconds in rows)


def total(rows: list[tuple[int, Kernel, Seconds]]) -> Seconds:
    """Seconds of these kernels together."""
    return sum(seconds for _, _, seconds in rows)


def per_cent(share: float) -> Quantity:
    """A share as a quantity in per cent."""
    return Quantity(value=100.0 * share, unit="%")


def count(value: float, unit: str = "a step") -> Quantity:
    """A number of things."""
    return Quantity(value=float(value), unit=unit)


def seconds(value: Seconds) -> Quantity:
    """A time."""
    return Quantity(value=value, unit="s")


def name_longest(rows: list[tuple[int, Kernel, Seconds]]) -> tuple[str, ...]:
    """The three longest kernels in words: name, share of these rows, calls."""
    whole = total(rows) or 1.0
    longest = sorted(rows, key=lambda row: -row[2])[:3]
    return tuple(
        f"{shorten_kernel(kernel.name)}: {100 * time / whole:.0f} % of it, calls a step: {kernel.calls:g}"
        for _, kernel, time in longest
    )
