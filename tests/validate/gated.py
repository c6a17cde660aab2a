"""A workload with something for every branch of the gate: y = x w, or its training by gradient descent."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import torch

from phasewise import Case, Checked, Peer, Program, Quantity, Shape, Unsupported, Work, Workload


@dataclass(frozen=True)
class Switches:
    fault: str = ""
    row: int = -1


workload = Workload(
    summary="A product",
    switches=Switches,
    cases={
        "product": Case(tiny=Shape(rows=8)),
        "resident": Case(tiny=Shape(rows=8), inputs="resident"),
        "sampled": Case(full=Shape(rows=1000), sample_items=300),
    },
    phases=(),
    peers=(
        Peer("plain"),
        Peer("half", different="it multiplies by w / 2"),
        Peer("other", different="it solves the problem without w"),
        Peer("absent"),
    ),
)


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(shape.rows, 4, generator=generator, dtype=torch.float64),
        "w": torch.randn(4, generator=generator, dtype=torch.float64),
    }


def work(case, shape):
    # not what a sample is taken of: that is the first dimension of the outputs
    return Work(items=4 * shape.rows)


def rows(case, shape):
    return shape.rows


def reference(inputs, case, shape, items=None):
    w = inputs["w"].clone()
    rows = slice(None) if items is None else items
    # float64 all the way: a default `place` of a reference keeps it
    return Program(step=lambda placed: placed["x"][rows] @ w)


def build(switches, inputs, case, shape, device):
    if switches.fault == "unsupported":
        raise Unsupported("needs a device with more fingers")
    if switches.fault == "build":
        raise RuntimeError("the build broke\nin the middle")
    if switches.fault == "killed":
        os.kill(os.getpid(), signal.SIGSEGV)
    w = inputs["w"].float()
    calls = [0]

    def step(placed):
        calls[0] += 1
        y = placed["x"] @ w
        if switches.row >= 0:
            y[switches.row] += 1
        if switches.fault == "noise":
            y = y + 1e-3 * torch.rand_like(y)
        if switches.fault == "raises later" and calls[0] > 4:
            raise IndexError("row 9 of 8")
        if switches.fault == "eats":
            placed["x"].zero_()
        return y

    fallbacks = ("product: no Triton here",) if switches.fault == "fallback" else ()
    return Program(step=step, fallbacks=fallbacks)


def plain(inputs, case, shape, device):
    return build(Switches(), inputs, case, shape, device)


def half(inputs, case, shape, device):
    w = inputs["w"].float() / 2
    return Program(step=lambda placed: placed["x"] @ w)


def half_reference(inputs, case, shape):
    w = inputs["w"] / 2
    return Program(step=lambda placed: placed["x"] @ w)


def other(inputs, case, shape, device):
    raise AssertionError("a peer without a reference is not built")


def absent(inputs, case, shape, device):
    raise Unsupported("needs the package absent (pip install absent)")


def drifts_little(context):
    program = context.build()
    y = context.run(program, context.inputs(7))["output"]
    exact = context.run(context.reference(), context.inputs(7))["output"]
    drift = float((y - exact).abs().max())
    return Checked(passed=drift < context.atol, message="drifts", numbers={"drift": Quantity(value=drift, unit="eV")})


def finds_a_fault(context):
    other = context.run(context.build(row=0), context.inputs(0))["output"]
    same = context.run(context.build(), context.inputs(0))["output"]
    return Checked(passed=bool((other == same).all()), message="rows differ")


def breaks(context):
    return {}["nothing"]


def says_nothing(context):
    return None
