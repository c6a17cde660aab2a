"""Programs that are honest and look suspicious: the gate has to let them through."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from phasewise import Case, Program, Shape, Workload

# of a function, as torch._dynamo.config.recompile_limit has it
VERSIONS = 8


@dataclass(frozen=True)
class Switches:
    form: str = "plain"


workload = Workload(
    summary="Energies and a mask",
    switches=Switches,
    cases={"main": Case(tiny=Shape(rows=8), inputs="timed")},
    phases=(),
)


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(shape.rows, 4, generator=generator, dtype=torch.float64),
        "w": torch.randn(4, 4, generator=generator, dtype=torch.float64),
    }


def build(switches, inputs, case, shape, device):
    w = inputs["w"].to(torch.get_default_dtype())
    mask = torch.ones(shape.rows, dtype=w.dtype)
    if switches.form == "plain":
        return Program(step=lambda placed: named(torch.tanh(placed["x"] @ w), mask))
    if switches.form == "static":
        return with_static_buffers(w, mask, shape)
    if switches.form == "in-place":
        return in_place(w, mask)
    if switches.form == "versions":
        return with_versions(w, mask)
    return with_threads(w, mask)


def named(y, mask):
    # a kept constant, an empty tensor and an integer beside what is computed
    return {"y": y, "mask": mask, "none": y[:0], "count": torch.tensor(len(y))}


def with_versions(w, mask):
    """One function, compiled for as many layers as the compiler allows versions of it."""
    # an eager backend: what counts is what the compiler keeps
    layer = torch.compile(apply_layer, backend="eager", fullgraph=True, dynamic=False)

    def step(placed):
        y = placed["x"]
        for number in range(VERSIONS):
            y = layer(y, w, number)
        return named(y, mask)

    return Program(step=step)


def apply_layer(x, w, number):
    return x if number else torch.tanh(x @ w)


def with_static_buffers(w, mask, shape):
    """As a CUDA graph has it: inputs are copied into one buffer, outputs stand in another."""
    x = torch.zeros(shape.rows, 4, dtype=w.dtype)
    y = torch.zeros(shape.rows, 4, dtype=w.dtype)

    def place(batch):
        x.copy_(batch["x"])
        return {"x": x}

    def step(placed):
        torch.matmul(x, w, out=y)
        y.tanh_()
        return named(y, mask)

    return Program(step=step, place=place)


def in_place(w, mask):
    """Consumes the placed batch, and hands out inference tensors."""

    def step(placed):
        with torch.inference_mode():
            y = (placed["x"] @ w).tanh_()
            placed["x"].zero_()
        return named(y, mask)

    return Program(step=step)


def with_threads(w, mask):
    """Splits the rows over a pool that it keeps, and waits for it."""
    pool = ThreadPoolExecutor(2)

    def step(placed):
        parts = list(pool.map(lambda part: torch.tanh(part @ w), placed["x"].chunk(2)))
        return named(torch.cat(parts), mask)

    return Program(step=step, close=pool.shutdown)
