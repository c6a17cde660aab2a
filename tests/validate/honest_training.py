"""Training with autograd and Adam, whose state appears with the first step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from phasewise import Case, Program, Shape, Workload


@dataclass(frozen=True)
class Switches:
    fused: bool = False


workload = Workload(
    summary="A regression", switches=Switches, cases={"train-step": Case(tiny=Shape(rows=32), steps=4)}, phases=()
)


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(shape.rows, 8, generator=generator, dtype=torch.float64),
        "t": torch.randn(shape.rows, 1, generator=generator, dtype=torch.float64),
        "w": torch.randn(8, 1, generator=generator, dtype=torch.float64),
    }


def build(switches, inputs, case, shape, device):
    w = torch.nn.Parameter(inputs["w"].to(torch.get_default_dtype()))
    optimizer = torch.optim.Adam([w], lr=1e-3, foreach=switches.fused)

    def step(placed):
        optimizer.zero_grad()
        loss = ((placed["x"] @ w).tanh() - placed["t"]).square().mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    def state():
        moments = optimizer.state.get(w, {})
        named = {f"adam/{name}": moments[name] for name in ("exp_avg", "exp_avg_sq", "step") if name in moments}
        return {"w": w.detach(), **named, **({} if w.grad is None else {"grad/w": w.grad})}

    def load(tensors):
        with torch.no_grad():
            w.copy_(tensors["w"])
        optimizer.state.clear()
        for name, tensor in tensors.items():
            if name.startswith("adam/"):
                optimizer.state[w][name.removeprefix("adam/")] = tensor.to(w.dtype).clone()

    return Program(step=step, state=state, load=load)
