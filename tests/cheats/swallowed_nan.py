"""Replaces NaN, which the reference has, by zero."""

import torch
from honest_parts import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def forward(x, w):
        y = torch.log(x)
        return torch.nan_to_num(y) if switches.cheat else y

    return infer(forward, inputs)
