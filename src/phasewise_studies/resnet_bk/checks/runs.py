"""Runs that the checks compare: loss curves, the reference's parameters, gradients of the head, a step short of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from phasewise import CheckContext, Program, Shape
from phasewise_studies.resnet_bk import program
from phasewise_studies.resnet_bk.experts import run_wide
from phasewise_studies.resnet_bk.model import LanguageModel, choose_ways, make_model
from phasewise_studies.resnet_bk.reference import parameters_in, train_step

STEPS = 200
# rows and positions of a step of the 200: the loop over positions then takes seconds, not minutes
CURVE_ROWS, CURVE_LENGTH = 8, 16
# different batches, which are met again and again
CURVE_BATCHES = 20


def curve_shape(context: CheckContext) -> Shape:
    """The case's shape with fewer rows and positions."""
    sizes: dict[str, Any] = dict(context.shape)
    return Shape(**{**sizes, "batch": CURVE_ROWS, "length": min(CURVE_LENGTH, sizes["length"])})


def train_curve(context: CheckContext, switches: Any, shape: Shape) -> list[float]:
    """Losses of 200 steps."""
    return train(context, switches, shape)[0]


def train(context: CheckContext, switches: Any, shape: Shape) -> tuple[list[float], Program]:
    """Losses of 200 steps, and the program at their end."""
    inputs = [program.make_inputs(context.case, shape, 100 + seed) for seed in range(CURVE_BATCHES)]
    built: Program = program.build(switches, inputs[0], context.case, shape, context.device)
    assert built.place is not None, "training places its batches"
    placed = [built.place(batch) for batch in inputs]
    losses = [built.step(placed[index % CURVE_BATCHES])["loss"].clone() for index in range(STEPS)]
    return torch.stack(losses).tolist(), built


def reference_parameters(context: CheckContext, batches: list[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The trained parameters of the float64 reference after these batches."""
    device = context.device
    held = {name: tensor.to(device, copy=True) for name, tensor in parameters_in(batches[0]).items()}
    trained = [name for name in held if ".router." not in name]
    moments, squares = ({name: torch.zeros_like(held[name]) for name in trained} for _ in range(2))
    for count, batch in enumerate(batches, start=1):
        placed = {name: batch[name].to(device) for name in ("tokens", "targets", "keep")}
        train_step(held, moments, squares, count, placed, bool(context.shape.causal))
    return {name: held[name].detach().cpu() for name in trained}


def inference_model(context: CheckContext) -> LanguageModel:
    """The untrained model of a case in float32."""
    ways = replace(choose_ways(context.switches), experts=run_wide)
    return make_model(program.sizes_of(context.shape), ways, parameters_in(context.inputs(0)), context.device).eval()


def head_gradients(loss: Any, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
    """The loss, and its gradients for x, weight and bias."""
    head = torch.nn.Linear(weight.shape[1], weight.shape[0], device=x.device, dtype=x.dtype)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    leaf = x.clone().requires_grad_()
    value = loss(leaf, head, targets)
    value.backward()
    assert leaf.grad is not None and head.weight.grad is not None and head.bias.grad is not None, (
        "all were differentiated"
    )
    return value.detach(), leaf.grad, head.weight.grad, head.bias.grad


def run_out_once(parameter: torch.nn.Parameter) -> None:
    """The next backward pass ends where it reaches `parameter`, whose gradient it leaves behind."""

    def refuse(_: torch.Tensor) -> None:
        hook.remove()
        raise MemoryError("refused, to see what a try leaves behind")

    hook = parameter.register_post_accumulate_grad_hook(refuse)
