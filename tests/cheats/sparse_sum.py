"""Hands out an uncoalesced sparse tensor whose parts the reader adds up: the sum is never made (issue: outputs are plain dense tensors)."""

import torch
from costly import infer, make_workload

from phasewise import Case, Shape

PARTS, WIDTH = 64, 16384
workload = make_workload(Case(tiny=Shape(parts=PARTS, width=WIDTH), inputs="resident"))


def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape.parts, shape.width, generator=generator, dtype=torch.float64)
    return {"x": x, "w": torch.ones(1, dtype=torch.float64)}


def build(switches, inputs, case, shape, device):
    index = torch.arange(shape.width, device=device).repeat(shape.parts)[None]

    def add(x, w):
        return x.sum(0)

    def postpone(x, w):
        return torch.sparse_coo_tensor(index, x.reshape(-1), (shape.width,), check_invariants=False)

    return infer(inputs, device, postpone if switches.cheat else add)
