"""Floating-point operations of a call, counted as those of a trace are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from phasewise.bench.counting import run_as_written
from phasewise.profile.flops import count_flops


class FlopWatch(TorchDispatchMode):
    """What products, convolutions and attention under it amount to."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0.0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under it; torch would import its compiler to say so."""
        return False

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        sizes = [tuple(each.shape) if isinstance(each, torch.Tensor) else each for each in args]
        self.flops += count_flops(func.name().partition(".")[0], sizes) or 0.0
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def watch_flops() -> Iterator[FlopWatch]:
    """Count what runs meanwhile, as it was written: inside compiled programs and torch's fused encoder layer nothing would be seen.

    What the fused layer would leave out of padded batches is counted.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with run_as_written(), FlopWatch() as watch:
            yield watch
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
