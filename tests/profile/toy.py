"""Writes a tiny workload into a folder and makes plans of it."""

from pathlib import Path

from phasewise.records.machine import Machine
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan

SOURCE = """
from __future__ import annotations

from dataclasses import dataclass

import torch

from phasewise.model.program import Program
from phasewise.model.workload import Case, Phase, Shape, Workload


@dataclass(frozen=True)
class Switches:
    hoist: bool = False
    graph: bool = False
    crash: bool = False


workload = Workload(
    summary="a chain of products", switches=Switches, cases={"one": Case(tiny=Shape(width=48))},
    phases=(Phase("hoist", {"hoist": True}),),
)


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    size = (shape.width, shape.width)
    return {name: torch.randn(size, generator=generator, dtype=torch.float64) for name in ("x", "w")}


def build(switches, inputs, case, shape, device):
    if switches.crash:
        raise RuntimeError("planted failure")

    def step(batch):
        x = batch["x"]
        scale = torch.exp(batch["w"])
        with torch.profiler.record_function("layers"):
            for _ in range(6):
                x = torch.tanh(x @ batch["w"]) + (scale if switches.hoist else torch.exp(batch["w"]))
        return {"y": x.sum()}

    if not switches.graph or device.type != "cuda":
        return Program(step=step)
    static = {name: tensor.to(device, torch.float32) for name, tensor in inputs.items()}
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(static)

    def place(batch):
        for name, tensor in batch.items():
            static[name].copy_(tensor)

    def replay(_):
        graph.replay()
        return result

    return Program(step=replay, place=place)
"""


def write_toy(folder: Path) -> None:
    # a name of its own for each folder, since modules stay imported
    (folder / f"{name_of(folder)}.py").write_text(SOURCE)


def name_of(folder: Path) -> str:
    return "toy_" + "".join(character if character.isalnum() else "_" for character in folder.name)


def toy_plan(
    folder: Path,
    *,
    device: str = "cpu",
    width: int = 48,
    profilers=("torch", "memory", "nvml"),
    inputs="timed",
    **changes,
):
    switches = {"hoist": False, "graph": False, "crash": False, **changes.pop("switches", {})}
    values = {
        "protocol": 1, "workload": "toy", "source": f"{name_of(folder)}.py", "run": f"tiny-{device}", "size": "tiny", "device": device,
        "variant": "00-baseline", "kind": Kind.BASELINE, "switches": switches, "tier": "strict",
        "cases": (PlannedCase(case="one", shape={"width": width}, switches=switches, inputs=inputs),),
        "allowance": Allowance(rtol=1e-5, atol=1e-6), "budget": Budget(), "profilers": profilers, "lock": "", "sources": "",
    }  # fmt: skip
    return VariantPlan(**{**values, **changes})


def toy_machine(device: str = "cpu") -> Machine:
    return Machine(device=device, kind="cpu" if device == "cpu" else "cuda", name="toy")
