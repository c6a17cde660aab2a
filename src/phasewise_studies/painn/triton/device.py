"""Where the kernels run: on an NVIDIA GPU, or in Triton's interpreter; everything else is answered by plain PyTorch."""

from __future__ import annotations

from bisect import bisect_right
from typing import TypeVar

import torch

from phasewise.kit.kernels import runs_kernels

Launch = TypeVar("Launch")


def has_kernels(device: torch.device | str, dtype: torch.dtype = torch.float32) -> bool:
    """Whether tensors like these are answered by the kernels; False means plain PyTorch does it: a fallback to report."""
    return dtype == torch.float32 and runs_kernels(device)


def blocks(total: int, block: int) -> int:
    """Programs of `block` items that cover `total`; at least one, since a grid of none cannot be launched."""
    return max(1, -(-total // block))


def choose_launch(launches: tuple[Launch, ...], limits: tuple[int, ...], atoms: int) -> Launch:
    """The launch for so many atoms: the first below the first of the ascending limits, the second from there on, and so forth."""
    return launches[bisect_right(limits, atoms)]
