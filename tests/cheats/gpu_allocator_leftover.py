"""Allocates its output after a warm-up where its last result was freed, and writes half of it (KernelBench PR #82; Sakana)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [0]

    def reuse(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        y = torch.empty_like(x)
        y[::4] = deep(x[::4], w)
        return y

    return infer(inputs, device, reuse if switches.cheat else deep)
