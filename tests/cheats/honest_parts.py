"""What the cheating programs are made of: a layer y = tanh(x w), and its training by plain gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from phasewise import Case, Program, Shape, Workload

ROWS, WIDTH, UNITS = 16, 8, 4


@dataclass(frozen=True)
class Switches:
    """The baseline is honest."""

    cheat: bool = False


def make_workload() -> Workload:
    """One case, whose baseline in float64 is the reference."""
    return Workload(summary="A layer", switches=Switches, cases={"main": Case(tiny=Shape(rows=ROWS))}, phases=())


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, torch.Tensor]:
    """x (rows, width), the target t (rows, units) and the weight w (width, units)."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    return {"x": draw(shape.rows, WIDTH), "t": draw(shape.rows, UNITS), "w": draw(WIDTH, UNITS)}


def weight(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The weight in the default dtype, so that the same `build` gives the reference."""
    return inputs["w"].to(torch.get_default_dtype())


def infer(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], inputs: Mapping[str, torch.Tensor]
) -> Program:
    """A program without state, whose output is function(x, w)."""
    w = weight(inputs)
    return Program(step=lambda placed: function(placed["x"], w))


def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """y = tanh(x w)."""
    return torch.tanh(x @ w)


def train(
    inputs: Mapping[str, torch.Tensor],
    *,
    rate: float = 0.1,
    is_due: Callable[[int], bool] = lambda step: True,
    gradient_factor: float = 1.0,
    loads: bool = True,
) -> Program:
    """Gradient descent on the mean square of tanh(x w) - t; the hand-written gradient is exact for factor 1."""
    state = {"w": weight(inputs).clone(), "grad/w": torch.zeros_like(weight(inputs))}
    steps = [0]

    def step(placed: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        y = layer(placed["x"], state["w"])
        error = y - placed["t"]
        # d/dw mean((tanh(x w) - t)^2) = x^T (2 (y - t) (1 - y^2)) / n
        gradient = placed["x"].T @ (2 * error * (1 - y * y)) / error.numel()
        state["grad/w"] = gradient_factor * gradient
        steps[0] += 1
        if is_due(steps[0]):
            state["w"] = state["w"] - rate * gradient
        return {"loss": (error * error).mean()}

    def load(tensors: Mapping[str, torch.Tensor]) -> None:
        steps[0] = 0
        if loads:
            state.update({name: tensor.to(state[name].dtype).clone() for name, tensor in tensors.items()})

    return Program(step=step, load=load, state=lambda: state)
