"""Run with a batch as large as memory allows: halved when it runs out, and tried again."""

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
