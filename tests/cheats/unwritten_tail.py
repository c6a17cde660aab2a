"""Leaves the last rows unwritten and trusts fresh memory to be zero."""

import torch
from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def forward(x, w):
        y = torch.empty(len(x) + 2, w.shape[1], dtype=x.dtype)
        y[: len(x)] = layer(x, w)
        if not switches.cheat:
            y[len(x) :] = 0
        return y

    return infer(forward, inputs)
