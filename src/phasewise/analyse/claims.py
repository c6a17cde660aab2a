"""Who may claim which seconds of a step: each second belongs to one finding at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from phasewise.records.base import Interval, Seconds
from phasewise.records.profile import Breakdown, Kernel

KERNEL = "kernel"
# parts of a breakdown beside its kernels
PARTS = ("launch_gap", "sync_wait", "copy", "communication", "input", "host")
# those that are the host's work, which the profiler slows down
HOST_PARTS = ("launch_gap", "sync_wait", "input", "host")
# a step is never predicted to become shorter than this share of itself: an interval needs an end
LEAST_LEFT = 1e-3


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Seconds that a finding wants from one pool, and which share of them a cure would remove."""

    # a part of the breakdown, "kernel" for all kernels together, or "kernel:3" for one of them
    pool: str
    seconds: Seconds
    least: float
    most: float


@dataclass(frozen=True, kw_only=True)
class Pools:
    """The untraced seconds of one step, in disjoint parts that sum to it."""

    step_s: Seconds
    parts: dict[str, Seconds]
    # one entry a kernel of the profile, then what the profile does not name
    kernels: tuple[Seconds, ...]

    def of(self, pool: str) -> Seconds:
        """Seconds of one pool."""
        if pool == KERNEL:
            return sum(self.kernels)
        if pool.startswith(f"{KERNEL}:"):
            return self.kernels[int(pool.partition(":")[2])]
        return self.parts[pool]


def make_pools(breakdown: Breakdown, kernels: Sequence[Kernel], step_s: Seconds | None, *, cuda: bool) -> Pools:
    """The breakdown scaled to the measured step.

    The profiler slows the host, not the kernels, so on a GPU only the host's parts shrink; if the kernels alone are longer
    than the step, and on a CPU, all shrink alike. Kernels that ran side by side share the time that they took together.
    """
    step = step_s or breakdown.wall_s
    parts = {part: float(getattr(breakdown, f"{part}_s")) for part in PARTS}
    busy = breakdown.kernel_s + parts["copy"] + parts["communication"]
    waiting = sum(parts[part] for part in HOST_PARTS)
    if cuda and busy <= step and waiting > 0.0:
        shrink = (step - busy) / waiting
        kernel_s = breakdown.kernel_s
        parts |= {part: parts[part] * shrink for part in HOST_PARTS}
    else:
        total = busy + waiting
        shrink = step / total if total > 0.0 else 0.0
        kernel_s = breakdown.kernel_s * shrink
        parts = {part: seconds * shrink for part, seconds in parts.items()}
    own = [kernel.seconds if _is_kernel(kernel, cuda=cuda) else 0.0 for kernel in kernels]
    named = sum(own)
    # rows may sum to more than the busy time (streams) or to less (the profile keeps the longest)
    factor = min(kernel_s / breakdown.kernel_s if breakdown.kernel_s else 0.0, kernel_s / named if named else 0.0)
    rows = [seconds * factor for seconds in own]
    return Pools(step_s=step, parts=parts, kernels=(*rows, max(0.0, kernel_s - sum(rows))))


def allocate(pools: Pools, wanted: Sequence[Sequence[Ask]]) -> list[Seconds]:
    """Seconds that each finding gets, first come first served; together never more than the step."""
    parts, kernels = dict(pools.parts), list(pools.kernels)
    return [sum(_take(parts, kernels, ask) for ask in asks) for asks in wanted]


def estimate_gain(pools: Pools, asks: Sequence[Ask], *, least_left_s: Seconds = 0.0) -> Interval | None:
    """Speed-up of the whole step if what is asked for were cured and nothing else: Amdahl's law at both ends.

    `least_left_s`: no cure can bring the step below it. None where nothing is asked for.
    """
    capped = _cap(pools, asks)
    if sum(seconds for _, seconds in capped) <= 0.0:
        return None
    removed = [sum(seconds * share(ask) for ask, seconds in capped) for share in (lambda a: a.least, lambda a: a.most)]
    return gain_from_removed(pools.step_s, *removed, least_left_s=least_left_s)


def sum_asked(pools: Pools, asks: Sequence[Ask]) -> Seconds:
    """What is asked for, as far as the pools hold it."""
    return sum(seconds for _, seconds in _cap(pools, asks))


def gain_from_removed(step_s: Seconds, least: Seconds, most: Seconds, *, least_left_s: Seconds) -> Interval:
    """Speed-up of a step of which between `least` and `most` seconds are removed."""
    bottom = min(step_s, max(least_left_s, LEAST_LEFT * step_s))
    low, high = (step_s / max(step_s - seconds, bottom) for seconds in (least, most))
    return Interval(estimate=math.sqrt(low * high), low=low, high=high)


def _is_kernel(kernel: Kernel, *, cuda: bool) -> bool:
    """Whether a row's time lies in the kernel part of the breakdown: collectives and copies have parts of their own."""
    if kernel.category == "copy":
        # on a GPU a copy within the device may be a kernel
        return cuda and not kernel.name.startswith(("Memcpy", "Memset"))
    return kernel.category != "communication"


def _cap(pools: Pools, asks: Sequence[Ask]) -> list[tuple[Ask, Seconds]]:
    """Each ask with no more than its pool holds, asks of one finding for the same pool together."""
    parts, kernels = dict(pools.parts), list(pools.kernels)
    return [(ask, _take(parts, kernels, ask)) for ask in asks]


def _take(parts: dict[str, Seconds], kernels: list[Seconds], ask: Ask) -> Seconds:
    """Take from the pool what is asked for, at most what is there; returns how much that was."""
    wanted = max(0.0, ask.seconds)
    if ask.pool == KERNEL:
        there = sum(kernels)
        taken = min(wanted, there)
        left = 1.0 - taken / there if there > 0.0 else 1.0
        kernels[:] = [seconds * left for seconds in kernels]
        return taken
    if ask.pool.startswith(f"{KERNEL}:"):
        index = int(ask.pool.partition(":")[2])
        taken = min(wanted, kernels[index])
        kernels[index] -= taken
        return taken
    taken = min(wanted, parts[ask.pool])
    parts[ask.pool] -= taken
    return taken
