"""Where the kernels run: on an NVIDIA GPU, or in Triton's interpreter; everything else is answered by plain PyTorch."""

from __future__ import annotations

import torch

from phasewise.kit.kernels import runs_kernels


def has_kernels(device: torch.device | str, dtype: torch.dtype = torch.float32) -> bool:
    """Whether tensors like these are answered by the kernels; False means plain PyTorch does it: a fallback to report."""
    return dtype == torch.float32 and runs_kernels(device)


def blocks(total: int, block: int) -> int:
    """Programs of `block` items that cover `total`; at least one, since a grid of none cannot be launched."""
    return max(1, -(-total // block))
