"""Computes half of the rows and hands out a view in which they overlap (issue: non-contiguous views that share memory)."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def overlap(x, w):
        half, width = len(x) // 2, x.shape[1]
        y = torch.cat([deep(x[:half], w), x[:1]])
        return y.as_strided(x.shape, (width // 2, 1))

    return infer(inputs, device, overlap if switches.cheat else deep)
