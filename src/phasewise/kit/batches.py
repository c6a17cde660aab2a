"""Run with a batch as large as memory allows: halved when it runs out, or doubled until it does."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

R = TypeVar("R")


@dataclass(frozen=True)
class Attempt:
    """One try with a batch of `size`; `error` is "" if it succeeded."""

    size: int
    error: str = ""
    # most memory allocated on the GPU meanwhile; 0 without one
    peak_bytes: int = 0


@dataclass(frozen=True)
class Halved(Generic[R]):
    """The result, the batch size that fitted, and every try in order."""

    result: R
    size: int
    history: tuple[Attempt, ...]


class DoesNotFit(MemoryError):
    """Even the smallest batch ran out of memory; `history` holds every try."""

    def __init__(self, history: tuple[Attempt, ...]) -> None:
        sizes = ", ".join(str(attempt.size) for attempt in history)
        super().__init__(f"out of memory at every batch size tried ({sizes}): {history[-1].error}")
        self.history = history


def run_halving(work: Callable[[int], R], size: int, *, smallest: int = 1) -> Halved[R]:
    """`work(size)`, with the size halved as long as it runs out of memory.

    `work` is called afresh at each size, so it has to begin with a clean slate (gradients zeroed, state loaded): what
    a failed try left behind is not undone. On a GPU each try resets torch's peak-memory statistics. Where the effective batch has to stay, accumulate `size` rows at a time.

    Raises:
        DoesNotFit: it ran out of memory at `smallest` too.
    """
    if not 1 <= smallest <= size:
        raise ValueError(f"smallest batch is {smallest}; use a size from 1 to {size}")
    history: list[Attempt] = []
    while True:
        outcome, attempt = _try(work, size)
        history.append(attempt)
        if not attempt.error:
            assert outcome is not None, "a try without an error has a result"
            return Halved(outcome[0], size, tuple(history))
        if size == smallest:
            raise DoesNotFit(tuple(history))
        size = max(size // 2, smallest)
        # only now: while the exception was handled, its frames kept the tensors alive
        _release()


@dataclass(frozen=True)
class Largest:
    """The largest batch that fitted; `capped` where the cap itself did, so that it is a lower bound. Every try in order."""

    size: int
    capped: bool
    history: tuple[Attempt, ...]


def find_largest(work: Callable[[int], object], first: int, most: int) -> Largest:
    """The largest size at which `work(size)` fits: doubled from `first`, then halved between, to an eighth of the size.

    `most` is tried and not exceeded: whatever else limits a batch, such as time. `work` begins with a clean slate, as for
    `run_halving`; memory that the last try reserved is given back.

    Raises:
        DoesNotFit: it ran out of memory at `first` already.
    """
    if not 1 <= first <= most:
        raise ValueError(f"first batch is {first}; use a size from 1 to {most}")
    history: list[Attempt] = []
    good, bad = 0, most + 1
    size = first
    while good < most and (good == 0 or bad - good > max(good // 8, 1)):
        history.append(_try(work, size)[1])
        _release()
        if history[-1].error and not good:
            raise DoesNotFit(tuple(history))
        if history[-1].error:
            bad = size
        else:
            good = size
        size = min(2 * good, most) if bad > most else (good + bad) // 2
    return Largest(good, good == most, tuple(history))


def _try(work: Callable[[int], R], size: int) -> tuple[tuple[R] | None, Attempt]:
    has_gpu = torch.cuda.is_available()
    if has_gpu:
        torch.cuda.reset_peak_memory_stats()
    outcome, message = None, ""
    try:
        outcome = (work(size),)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
    return outcome, Attempt(size, message, torch.cuda.max_memory_allocated() if has_gpu else 0)


def is_out_of_memory(error: BaseException) -> bool:
    """True for the errors of the GPU allocator, of Python and of torch's allocator of host memory."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # c10/core/impl/alloc_cpu.cpp raises a plain RuntimeError
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def _release() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
