"""A program that notes who is called, and puts work off for a hook that does it only where it is the first to ask after a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy
import torch

from phasewise import Case, Program, Shape, Workload

# names of what was called, in this process
CALLS: list[str] = []


@dataclass(frozen=True)
class Switches:
    lazy: str = ""
    beside_torch: bool = False


workload = Workload(
    summary="A product",
    switches=Switches,
    cases={"placed": Case(tiny=Shape(rows=16)), "resident": Case(tiny=Shape(rows=16), inputs="resident")},
    phases=(),
)


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape.rows, shape.rows, generator=generator, dtype=torch.float64) for name in ("x", "w")}


def build(switches, inputs, case, shape, device):
    held = {"w": inputs["w"].float()}

    def ask(hook, tensor):
        """The tensor, or work on it where this hook is meant and asks first."""
        is_first = CALLS[-1:] == ["step"]
        CALLS.append(hook)
        if hook != switches.lazy or not is_first:
            return tensor
        if switches.beside_torch:
            return torch.from_numpy(numpy.asarray(tensor) @ numpy.asarray(held["w"]))
        return tensor @ held["w"]

    def place(batch):
        return {"x": ask("place", batch["x"].float())}

    def step(placed):
        CALLS.append("step")
        return placed["x"] @ held["w"]

    def load(state):
        held["w"] = ask("load", state["w"].float()).clone()

    return Program(
        step=step,
        place=place,
        outputs=lambda raw: {"y": ask("outputs", raw)},
        state=lambda: {"w": ask("state", held["w"])},
        load=load,
    )
