"""What the sampler needs of an arm: a worker process has it, and so has the fake of the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from phasewise.records.base import Scalar
from phasewise.workers.arm import Delivered, Launch
from phasewise.workers.warmup import Warmed


class ArmDriver(Protocol):
    """One arm in a fresh process. Every method but `close` may raise ProcessFailed, which ends the process."""

    @property
    def pids(self) -> tuple[int, ...]: ...

    def wait(self) -> None:
        """Until its imports are done: a process that waits to be opened disturbs no other."""

    def open(self, *, beside: int = 0) -> dict[str, Any]:
        """Build and step once, while `beside` other processes do so: build_s, first_step_s, items, version, stateful, idle_power_w.

        Asked again, it answers the same.
        """

    def block(self, steps: int, settle: int, first: int = 0) -> dict[str, Any]:
        """Time steps from number `first` and the initial state: the fields of a Sample but its arm."""

    def deliver(self, *, outputs: bool = True, state: bool = False) -> list[Delivered]:
        """Where each rank has written what its last step gave."""

    def refresh(self, entries: Mapping[str, Any]) -> None:
        """Take other contents into entries of the ring."""

    def count(self, steps: int = 1) -> tuple[int, int]:
        """Operators of so many steps, and elements that they read and write."""

    def singles(self, count: int) -> list[float]:
        """Seconds of single steps."""

    def placing(self, count: int) -> list[float]:
        """Seconds to place one batch."""

    def energy(self, steps: int) -> tuple[float, float] | None:
        """Seconds and joules of a window of steps."""

    def memory(self) -> tuple[int, str]:
        """Peak bytes, and how they were counted."""

    def files(self) -> set[str]:
        """Names of the files that it has loaded of the workload and the kit."""

    def close(self) -> None:
        """End the process."""


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """An arm that is to be measured."""

    arm: str
    variant: str
    # its process in each set; the last is that of all sets after it
    launches: Sequence[Launch] = ()
    # the process of the first set has empty compile caches
    fresh_caches: bool = False
    switches: Mapping[str, Scalar] = field(default_factory=dict)
    ranks: int = 1
    # steps are timed one by one, with the cache flushed before each
    cold: bool = False
    # left out of the rounds if a step takes longer than the budget's `slow_step_s`
    spare_if_slow: bool = False
    # percentiles of single steps, placing
    singles: bool = False
    energy: bool = False
    # where its processes were warmed up before
    warmed: Warmed | None = None
