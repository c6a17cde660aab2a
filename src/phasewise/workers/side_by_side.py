"""Cases of a variant that run side by side, each in a process of its own: how many, and whether one was too many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from phasewise.environment import count_cores
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.records.verdict import Failure, Reason

A = TypeVar("A")
B = TypeVar("B")
# a case has so many cores, where several run side by side
CORES_A_CASE = 4


def count_at_once(plan: VariantPlan) -> int:
    """Cases of `plan` that run side by side: one where each needs the whole CPU or several ranks."""
    if plan.device == "cpu" or plan.ranks > 1:
        return 1
    return max(1, min(len(plan.cases), count_cores() // CORES_A_CASE))


def run_side_by_side(function: Callable[[A], B], items: Iterable[A], at_once: int) -> tuple[B, ...]:
    """`function` of each of `items`, in their order, so many at a time in threads.

    An interruption waits for none of them: each would still go on to its next process. They end with this process.
    """
    pool = ThreadPoolExecutor(at_once)
    try:
        return tuple(pool.map(function, items))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def was_too_tight(planned: PlannedCase, failure: Failure | None) -> bool:
    """Whether the case may only have lacked memory for the others beside it; a cap of its own is no one else's fault."""
    out = failure is not None and failure.reason is Reason.OUT_OF_MEMORY
    return out and planned.memory_limit_bytes is None
