"""Triton kernels: whether they run here, and how to launch one again without Triton's look at every argument.

Triton finds out at each launch which compiled form of a kernel its arguments ask for: 20 us of host time for 30 arguments beside
an H200, where the compiled form itself is launched in 9 us. A kernel that runs for less waits for its host.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

# the oldest compute capability for which the tests compile kernels
OLDEST = (7, 5)


def is_interpreted() -> bool:
    """Whether Triton runs kernels in its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


# asked at every call of a kernel
@functools.cache
def runs_kernels(device: torch.device | str, capability: tuple[int, int] = OLDEST) -> bool:
    """Whether kernels run for tensors on this device; where not, plain PyTorch has to answer: a fallback to report."""
    if importlib.util.find_spec("triton") is None:
        return False
    device = torch.device(device)
    return is_interpreted() or (device.type == "cuda" and torch.cuda.get_device_capability(device) >= capability)


def has_kernel(device: torch.device | str, dtype: torch.dtype = torch.float32) -> bool:
    """Whether kernels of float32 answer for tensors of this device and dtype."""
    return dtype == torch.float32 and runs_kernels(device)


def launch_and_keep(
    kernel: Any,
    grid: Sequence[int],
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[float],
    constants: Mapping[str, Any],
    **options: Any,
) -> Callable[..., None]:
    """Launch `kernel` once and return `again(*tensors)`, which launches it with the same numbers, constants and grid.

    The kernel takes tensors, then numbers, then constants (its `tl.constexpr`), in this order. `again` looks at nothing: its
    tensors must be on the same device and have the dtypes of the first ones, and be aligned to 16 bytes where those were
    (`describe_layout`). `options` are those of Triton, such as `num_warps`.
    """
    compiled = kernel[tuple(grid)](*tensors, *numbers, **constants, **options)
    if compiled is None:
        # the interpreter compiles nothing
        return lambda *others: kernel[tuple(grid)](*others, *numbers, **constants, **options)
    run = compiled[(*grid, 1, 1)[:3]]
    fixed = (*numbers, *constants.values())
    return lambda *others: run(*others, *fixed)


def describe_layout(tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """What a compiled kernel and its numbers stand on: equal for tensors that `launch_and_keep`'s result takes in turn."""
    return tuple([(x.shape, x.stride(), x.dtype, x.device, x.data_ptr() % 16) for x in tensors])
