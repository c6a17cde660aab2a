"""How a matrix product of plain PyTorch rounds: float32, TF32 or bfloat16. Three TF32 products in one are in `kernels/dense.py`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.adjoint import Multiply

# bits of float32's mantissa that TF32 drops: 23 - 10
DROPPED = 13


def choose_multiply(precision: str, device: torch.device) -> tuple[Multiply, tuple[str, ...]]:
    """x weight^T in the asked precision, and why it is not that precision here."""
    # set in both directions: another variant in this process may have left it on
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    if precision == "tf32":
        # a CPU has no TF32: its rounding of the operands is done by hand, to see what it costs in accuracy
        return (linear if device.type == "cuda" else multiply_tf32), ()
    if precision == "bfloat16":
        return multiply_bfloat16, ()
    if precision == "tf32x3" and not has_kernel(device):
        return linear, ("tf32x3: no NVIDIA GPU, float32 products ran instead",)
    return linear, ()


def round_to_tf32(x: Tensor) -> Tensor:
    """float32 rounded to the 10 bits of mantissa of TF32, halves away from zero."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + (1 << (DROPPED - 1))) & -(1 << DROPPED)).view(torch.float32)


def multiply_tf32(x: Tensor, weight: Tensor) -> Tensor:
    """What a tensor core does with float32 operands: both rounded to TF32, sums in float32."""
    return linear(round_to_tf32(x), round_to_tf32(weight))


def multiply_bfloat16(x: Tensor, weight: Tensor) -> Tensor:
    """Operands and result in bfloat16."""
    return linear(x.bfloat16(), weight.bfloat16()).to(x.dtype)
