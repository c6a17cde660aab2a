"""The BK core by bk_core's kernels: a (batch, length) -> Re G, Im G (batch, length, 2), differentiable, and traceable by torch.compile.

Real at both ends: Inductor has no code for complex numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.bk_core import kernels
from phasewise_studies.resnet_bk.core import Z, couplings_of


@torch.library.custom_op("resnet_bk::features", mutates_args=())
def features(a: Tensor, causal: bool) -> Tensor:
    """As `core.features_loop`, by fused kernels forward and backward; by the plain recursions where there is no kernel."""
    return torch.view_as_real(kernels.diagonal(a, *couplings_of(a), Z, causal=causal))


@features.register_fake
def _(a: Tensor, causal: bool) -> Tensor:
    return a.new_empty((*a.shape, 2))


@torch.library.custom_op("resnet_bk::features_backward", mutates_args=())
def features_backward(grad: Tensor, a: Tensor, causal: bool) -> Tensor:
    """dL/da (batch, length) from dL/d(Re G, Im G) (batch, length, 2); everything else is computed again from a."""
    upstream = torch.view_as_complex(grad.contiguous())
    gradients = kernels.gradient(a, *couplings_of(a), Z, upstream, causal=causal, couplings=False, shift=False)
    return gradients[0].contiguous()


@features_backward.register_fake
def _(grad: Tensor, a: Tensor, causal: bool) -> Tensor:
    return a.new_empty(a.shape)


def _keep_operand(ctx, inputs: tuple[Tensor, bool], output: Tensor) -> None:
    a, ctx.causal = inputs
    ctx.save_for_backward(a)


def _backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
    return features_backward(grad, *ctx.saved_tensors, ctx.causal), None


features.register_autograd(_backward, setup_context=_keep_operand)
