"""Allocates its output where a result of its own was freed, and does not write it (KernelBench PR #82; Sakana)."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [0]

    def reuse(x, w):
        calls[0] += 1
        if calls[0] % 2:
            return deep(x, w)
        return torch.empty_like(x)

    return infer(inputs, device, reuse if switches.cheat else deep)
