"""Inputs and programs; each form lies in a file of its own, imported where it is chosen."""

import torch

from phasewise import Program

from .switches import Switches


def make_inputs(case, shape, seed):
    return {"x": torch.rand(shape.n, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def build(switches: Switches, inputs, case, shape, device):
    # an empty comment
    def step(batch):
        return {"sum": sum_up(batch["x"])}

    if switches.doubled:
        from .doubled import sum_up
    elif switches.block:
        from .blocks import make_sum

        sum_up = make_sum(switches.block)
    elif switches.vectorised:
        from .rows import sum_up
    else:
        from .each import sum_up
    return Program(step=step)
