"""Draws its random numbers while it places a batch."""

import torch
from honest_parts import layer, make_inputs, make_workload, weight

from phasewise import Program

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = weight(inputs)

    def place(batch):
        if switches.cheat:
            torch.rand(3)
        return batch["x"].to(w.dtype)

    return Program(step=lambda x: {"y": layer(x, w)}, place=place)
