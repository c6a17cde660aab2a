"""The diagonal with its gradient for PyTorch: an autograd Function, and operators of torch.library for compile and export.

Operators speak in real pairs (batch, length, 2), since compilers and file formats have little or no code for complex numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from phasewise_studies.bk_core import kernels

NAMESPACE = "phasewise_bk"


class Diagonal(torch.autograd.Function):
    """diag((H - z)^-1), complex (batch, length), with the analytic O(N) gradient for a, b, c and a tensor z."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, c: Tensor, z: complex | Tensor, causal: bool = False) -> Tensor:
        is_tensor = isinstance(z, Tensor)
        ctx.save_for_backward(a, b, c, *((z,) if is_tensor else ()))
        ctx.z, ctx.causal = None if is_tensor else z, causal
        return kernels.diagonal(a, b, c, z, causal=causal)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        a, b, c, *rest = ctx.saved_tensors
        found = kernels.gradient(
            a, b, c, rest[0] if rest else ctx.z, upstream, causal=ctx.causal,
            couplings=ctx.needs_input_grad[1] or ctx.needs_input_grad[2], shift=bool(rest) and ctx.needs_input_grad[3],
        )  # fmt: skip
        return *found, None


def diagonal(a: Tensor, b: Tensor, c: Tensor, z: complex | Tensor, causal: bool = False) -> Tensor:
    """`Diagonal` as a function; twice differentiable it is not."""
    result: Tensor = Diagonal.apply(a, b, c, z, causal)
    return result


@torch.library.custom_op(f"{NAMESPACE}::diagonal", mutates_args=())
def diagonal_pairs(a: Tensor, b: Tensor, c: Tensor, z: Tensor, causal: bool) -> Tensor:
    """The diagonal as pairs (batch, length, 2); z is (2,) or (batch, 2)."""
    found = kernels.diagonal(a, b, c, torch.view_as_complex(z.contiguous()), causal=causal)
    # an operator's result must not be a view of anything
    return torch.view_as_real(found).clone() if found.is_conj() else torch.view_as_real(found)


@diagonal_pairs.register_fake
def _(a: Tensor, b: Tensor, c: Tensor, z: Tensor, causal: bool) -> Tensor:
    return a.new_empty(*a.shape, 2)


@torch.library.custom_op(f"{NAMESPACE}::gradient", mutates_args=())
def gradient_pairs(
    a: Tensor, b: Tensor, c: Tensor, z: Tensor, upstream: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients for a, b, c and z from the gradient of the pairs, each in its operand's shape."""
    by_a, by_b, by_c, by_z = kernels.gradient(
        a, b, c, torch.view_as_complex(z.contiguous()), torch.view_as_complex(upstream.contiguous()), causal=causal
    )
    assert by_b is not None and by_c is not None and by_z is not None
    fresh = tuple(found.contiguous().clone() for found in (by_a, by_b, by_c, torch.view_as_real(by_z)))
    return fresh[0], fresh[1], fresh[2], fresh[3]


@gradient_pairs.register_fake
def _(
    a: Tensor, b: Tensor, c: Tensor, z: Tensor, upstream: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return a.new_empty(a.shape), b.new_empty(b.shape), c.new_empty(c.shape), z.new_empty(z.shape)


def _keep_operands(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *operands, ctx.causal = inputs
    ctx.save_for_backward(*operands)


def _differentiate(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
    return *gradient_pairs(*ctx.saved_tensors, upstream, ctx.causal), None


diagonal_pairs.register_autograd(_differentiate, setup_context=_keep_operands)
