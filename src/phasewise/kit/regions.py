"""Name a part of a step, so that profiles can tell its time from the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def region(name: str) -> Iterator[None]:
    """`with region("generation"):` or `@region("generation")`: seen by torch.profiler and, through NVTX, by Nsight Systems.

    Regions nest. In code that torch.compile traces they do nothing: kernels of a compiled graph have no such order.
    Without a profiler one costs a few microseconds.
    """
    if torch.compiler.is_compiling():
        yield
        return
    # NVTX is of use only in a process that talks to a GPU, and must not be what starts to
    has_gpu = torch.cuda.is_initialized()
    with torch.profiler.record_function(name):
        if has_gpu:
            torch.cuda.nvtx.range_push(name)
        try:
            yield
        finally:
            if has_gpu:
                torch.cuda.nvtx.range_pop()
