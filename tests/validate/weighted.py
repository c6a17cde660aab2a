"""A linear layer with weights that `build` draws: in a module, or beside it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from phasewise import Case, Phase, Program, Shape, Workload


@dataclass(frozen=True)
class Switches:
    where: str = "module"
    seed: int = 0


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.rand(6, shape.n, dtype=torch.float64, generator=generator)}


def build(switches, inputs, case, shape, device):
    torch.manual_seed(switches.seed)
    if case == "beside":
        weight = torch.randn(shape.n, shape.n, device=device)
        return Program(step=lambda batch: {"y": batch["x"] @ weight})
    layer = torch.nn.Linear(shape.n, shape.n).requires_grad_(False).to(device)
    return Program(step=lambda batch: {"y": layer(batch["x"])})


workload = Workload(
    summary="A linear layer",
    switches=Switches,
    cases={name: Case(tiny=Shape(n=16)) for name in ("module", "beside")},
    phases=(Phase("reseeded", {"seed": 1}, because="launch-gaps"),),
)
