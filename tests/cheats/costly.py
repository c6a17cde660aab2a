"""What the cheats of the corpus are made of: a stack of layers that takes a millisecond or two, and its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy
import torch
from honest_parts import Switches

from phasewise import Case, Idea, Phase, Program, Shape, Workload

ROWS, WIDTH, DEPTH = 64, 256, 12
# of a GPU, for about the same time
GPU_ROWS = 8192
# of a training step, whose gradient takes twice the time of its loss
TRAINED_DEPTH = 4
RATE, MOMENTUM = 0.05, 0.9
# calls after which a cheat believes that nobody looks any more: a gate makes fewer, a warm-up more
LATE = 64
# steps from `load` that validation does not go beyond
WATCHED = 8

Named = Mapping[str, torch.Tensor]


def make_case(**fields: Any) -> Case:
    """Tiny for a CPU, full for a GPU."""
    return Case(tiny=Shape(rows=ROWS), full=Shape(rows=GPU_ROWS), **fields)


def make_workload(case: Case | None = None, *, sets: Mapping[str, Any] | None = None, **changes: Any) -> Workload:
    """One case, one phase: the cheat."""
    phase = Phase("cheat", {"cheat": True, **(sets or {})}, because=Idea("to win"), **changes.pop("phase", {}))
    fields = {"switches": Switches, "cases": {"main": case or make_case()}, **changes}
    return Workload(summary="Layers", phases=(phase,), **fields)


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, torch.Tensor]:
    """x and its target t (rows, width), and the weight w (width, width), with which a signal neither dies nor explodes."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    return {
        "x": draw(shape.rows, WIDTH),
        "t": 0.5 * draw(shape.rows, WIDTH),
        "w": 1.2 / WIDTH**0.5 * draw(WIDTH, WIDTH),
    }


def deep(x: torch.Tensor, w: torch.Tensor, layers: int = DEPTH) -> torch.Tensor:
    """x = tanh(x w), `layers` times."""
    for _ in range(layers):
        x = torch.tanh(x @ w)
    return x


def deep_beside_torch(x: torch.Tensor, w: torch.Tensor, layers: int = DEPTH) -> torch.Tensor:
    """The same by numpy, of which no mode of torch sees anything."""
    y, by = x.numpy(), w.numpy()
    for _ in range(layers):
        y = numpy.tanh(y @ by)
    return torch.from_numpy(y)


def place_weight(inputs: Named, device: torch.device) -> torch.Tensor:
    """The weight on the device, in the default dtype, so that the same `build` gives the reference."""
    return inputs["w"].to(device=device, dtype=torch.get_default_dtype())


def infer(inputs: Named, device: torch.device, function: Callable[..., torch.Tensor] = deep, **hooks: Any) -> Program:
    """A program that gives function(x, w) under the name y; `hooks` are further fields of a Program."""
    w = place_weight(inputs, device)
    dtype = w.dtype
    return Program(
        **{
            "step": lambda x: {"y": function(x, w)},
            "place": lambda batch: batch["x"].to(device=device, dtype=dtype),
            **hooks,
        }
    )


class Trainer:
    """Gradient descent with momentum on the mean square of deep(x, w) - t; a cheat overrides a method."""

    def __init__(self, inputs: Named, device: torch.device) -> None:
        self.w = place_weight(inputs, device).clone()
        self.momentum = torch.zeros_like(self.w)
        self.gradient = torch.zeros_like(self.w)
        # since `load`, and since the build
        self.steps = self.calls = 0
        self.device, self.dtype = device, self.w.dtype

    def place(self, batch: Named) -> Any:
        return tuple(batch[name].to(device=self.device, dtype=self.dtype) for name in ("x", "t"))

    def differentiate(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """The loss; sets the gradient."""
        w = self.w.detach().requires_grad_()
        loss = ((deep(x, w, TRAINED_DEPTH) - t) ** 2).mean()
        (self.gradient,) = torch.autograd.grad(loss, w)
        return loss.detach()

    def update(self) -> None:
        self.momentum = MOMENTUM * self.momentum + self.gradient
        self.w = self.w - RATE * self.momentum

    def step(self, placed: Any) -> Any:
        self.steps += 1
        self.calls += 1
        loss = self.differentiate(*placed)
        self.update()
        return {"loss": loss}

    def load(self, state: Named) -> None:
        self.steps = 0
        self.w, self.momentum, self.gradient = (
            state[name].to(device=self.device, dtype=self.dtype).clone() for name in ("w", "momentum/w", "grad/w")
        )

    def state(self) -> Named:
        return {"w": self.w, "momentum/w": self.momentum, "grad/w": self.gradient}

    def program(self, **hooks: Any) -> Program:
        return Program(**{"step": self.step, "place": self.place, "load": self.load, "state": self.state, **hooks})
