"""Where the kernels run: on an NVIDIA GPU, or in Triton's interpreter; everything else is answered by plain PyTorch."""

from __future__ import annotations

import functools
import importlib.util
import os

import torch


def is_interpreted() -> bool:
    """Whether Triton runs kernels in its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def has_kernels(device: torch.device | str, dtype: torch.dtype = torch.float32) -> bool:
    """Whether tensors like these are answered by the kernels; False means plain PyTorch does it: a fallback to report."""
    return dtype == torch.float32 and _has_kernels(torch.device(device))


# asked at every call of a kernel, so the search for the package is made once
@functools.cache
def _has_kernels(device: torch.device) -> bool:
    if importlib.util.find_spec("triton") is None:
        return False
    if is_interpreted():
        return True
    # compute capability 7.5 is the oldest for which the kernels are compiled in the tests
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (7, 5)


def blocks(total: int, block: int) -> int:
    """Programs of `block` items that cover `total`; at least one, since a grid of none cannot be launched."""
    return max(1, -(-total // block))
