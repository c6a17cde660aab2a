"""Checks of single layers: the core, the experts, the head."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from phasewise import CheckContext, Checked, Quantity
from phasewise_studies.bk_core.reference import diagonal_causal, diagonal_ratio
from phasewise_studies.resnet_bk.checks.runs import head_gradients
from phasewise_studies.resnet_bk.cross_entropy import loss_plain
from phasewise_studies.resnet_bk.experts import EXPERTS, run_loop, run_wide
from phasewise_studies.resnet_bk.kernels.core import features
from phasewise_studies.resnet_bk.kernels.linear_cross_entropy import loss_fused
from phasewise_studies.resnet_bk.padding import PaddedClasses
from phasewise_studies.resnet_bk.state import cut
from phasewise_studies.resnet_bk.train import CLASSES_MULTIPLE


def core_gradient(context: CheckContext) -> Checked:
    """dL/da against float64 autograd through the plain recursion, for both directions, at an odd shape and at the case's own."""
    generator = torch.Generator().manual_seed(1)
    worst = 0.0
    own = (context.shape.batch, context.shape.length)
    for causal, (rows, length) in itertools.product((False, True), ((3, 65), own)):
        a = -2 + 3 * (2 * torch.rand(rows, length, generator=generator) - 1)
        upstream = torch.randn(rows, length, 2, generator=generator)
        leaf = a.to(context.device, copy=True).requires_grad_()
        features(leaf, causal).backward(upstream.to(context.device))
        exact = a.double().requires_grad_()
        ones = torch.ones(length - 1, dtype=torch.float64)
        diagonal = diagonal_causal if causal else diagonal_ratio
        torch.view_as_real(diagonal(exact, ones, ones, 1j)).backward(upstream.double())
        assert leaf.grad is not None and exact.grad is not None, "both were differentiated"
        worst = max(worst, float((leaf.grad.cpu() - exact.grad).norm() / exact.grad.norm()))
    return within("gradient", worst, 1e-5)


def routing(context: CheckContext) -> Checked:
    """The wide network gives each token what its expert alone gives, for every choice."""
    generator = torch.Generator().manual_seed(2)
    width, tokens = 16, 64
    hidden = 2 * width * EXPERTS
    shapes = ((tokens, width), (hidden, width), (hidden,), (width, hidden), (EXPERTS, width))
    x, *weights = (torch.randn(shape, generator=generator).to(context.device) for shape in shapes)
    keep = (torch.rand(tokens, 2 * width, generator=generator) > 0.1).to(context.device)
    choice = (torch.arange(tokens) % EXPERTS).to(context.device)
    one, other = (run(x, choice, keep, *weights) for run in (run_loop, run_wide))
    return within("experts", float((one - other).norm() / one.norm()), 1e-5)


def fused_loss(context: CheckContext) -> Checked:
    """Loss and gradients of the fused head against float64 through all logits, in bfloat16 and float32."""
    weight, bias, x, targets = _draw_head(context)
    exact = head_gradients(loss_plain, x, weight, bias, targets)
    worst = {}
    for dtype in (torch.float32, torch.bfloat16):
        on_device = [part.to(context.device, dtype) for part in (x, weight)]
        found = head_gradients(loss_fused, *on_device, bias.to(context.device, dtype), targets.to(context.device))
        worst[dtype] = max(
            float((one.double().cpu() - two).norm() / two.norm()) for one, two in zip(found, exact, strict=True)
        )
    return Checked(
        passed=worst[torch.float32] <= 1e-4 and worst[torch.bfloat16] <= 2e-2,
        message=f"relative errors: float32 {worst[torch.float32]:.1e}, bfloat16 {worst[torch.bfloat16]:.1e}",
        numbers={str(dtype).removeprefix("torch."): Quantity(value=error) for dtype, error in worst.items()},
    )


def _draw_head(context: CheckContext) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weight, bias, and up to 257 rows with their targets, in float64."""
    batch = context.inputs(3)
    weight, targets = batch["head.weight"], batch["targets"].flatten()[:257]
    x = torch.randn(257, weight.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return weight, batch["head.bias"], x[: len(targets)], targets


def padding(context: CheckContext) -> Checked:
    """The padded head's loss and gradients against float64 without padding; what stands in the padding has no gradient at all."""
    weight, bias, x, targets = _draw_head(context)
    exact = head_gradients(loss_plain, x, weight, bias, targets)
    head = torch.nn.Linear(weight.shape[1], weight.shape[0], device=context.device)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    wide = PaddedClasses(head, CLASSES_MULTIPLE)
    leaf = x.to(context.device, torch.float32).requires_grad_()
    loss = loss_plain(leaf, wide, targets.to(context.device))
    loss.backward()
    assert wide.padded_bias is not None, "the head has a bias"
    inside, beyond = [loss.detach(), leaf.grad], 0.0
    for parameter, plain_shape in ((wide.padded_weight, weight.shape), (wide.padded_bias, bias.shape)):
        assert parameter.grad is not None, "all were differentiated"
        inside.append(cut(parameter.grad, plain_shape).clone())
        cut(parameter.grad, plain_shape).zero_()
        beyond += float(parameter.grad.abs().sum())
    worst = max(float((one.double().cpu() - two).norm() / two.norm()) for one, two in zip(inside, exact, strict=True))
    return Checked(
        passed=worst <= 1e-5 and beyond == 0,
        message=f"{len(wide.padded_bias) - len(bias)} classes of padding: error {worst:.1e}, their own gradients add up to {beyond:g}",
        numbers={"largest error": Quantity(value=worst), "gradient in the padding": Quantity(value=beyond)},
    )


def within(what: str, error: float, allowed: float) -> Checked:
    """Passed if `error` is at most what is allowed."""
    return Checked(
        passed=error <= allowed, message=f"{what}: error {error:.1e}", numbers={"largest error": Quantity(value=error)}
    )
