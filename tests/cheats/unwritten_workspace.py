"""Accumulates into a workspace that the build only allocated."""

import torch
from honest_parts import infer, layer, make_inputs, make_workload, weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = weight(inputs)
    make = torch.empty if switches.cheat else torch.zeros
    workspace = make(shape.rows, w.shape[1], dtype=w.dtype)
    return infer(lambda x, w: layer(x, w) + 0 * workspace, inputs)
