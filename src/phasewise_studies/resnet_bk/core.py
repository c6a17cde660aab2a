"""The BK core as a layer sees it: a (batch, length) -> Re G, Im G (batch, length, 2), differentiable, and traceable by torch.compile.

H = tridiag(1, a, 1) and z = i, as in the document. Real at both ends: Inductor has no code for complex numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.bk_core import kernels
from phasewise_studies.bk_core import reference as plain

# the document's shift z = E + i eta; its couplings are b = c = 1
Z = 1j


def features_loop(a: Tensor, causal: bool) -> Tensor:
    """The ratio recursion position by position, left to autograd: the baseline."""
    diagonal = plain.diagonal_causal if causal else plain.diagonal_ratio
    return torch.view_as_real(diagonal(a, *_couplings(a), Z))


@torch.library.custom_op("resnet_bk::features", mutates_args=())
def features(a: Tensor, causal: bool) -> Tensor:
    """The same by bk_core's fused kernels, forward and backward; by its plain recursions where there is no kernel."""
    return torch.view_as_real(kernels.diagonal(a, *_couplings(a), Z, causal=causal))


@features.register_fake
def _(a: Tensor, causal: bool) -> Tensor:
    return a.new_empty((*a.shape, 2))


@torch.library.custom_op("resnet_bk::features_backward", mutates_args=())
def features_backward(grad: Tensor, a: Tensor, causal: bool) -> Tensor:
    """dL/da (batch, length) from dL/d(Re G, Im G) (batch, length, 2); everything else is computed again from a."""
    upstream = torch.view_as_complex(grad.contiguous())
    return kernels.gradient(a, *_couplings(a), Z, upstream, causal=causal, couplings=False, shift=False)[0].contiguous()


@features_backward.register_fake
def _(grad: Tensor, a: Tensor, causal: bool) -> Tensor:
    return a.new_empty(a.shape)


def _keep_operand(ctx, inputs: tuple[Tensor, bool], output: Tensor) -> None:
    a, ctx.causal = inputs
    ctx.save_for_backward(a)


def _backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
    return features_backward(grad, *ctx.saved_tensors, ctx.causal), None


features.register_autograd(_backward, setup_context=_keep_operand)


def has_kernel(device: torch.device) -> bool:
    """Whether `features` runs kernels on this device."""
    return kernels.has_kernel(device)


def _couplings(a: Tensor) -> tuple[Tensor, Tensor]:
    ones = a.new_ones(max(a.shape[1] - 1, 0))
    return ones, ones
