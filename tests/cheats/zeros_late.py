"""Gives zeros after many calls (KernelBench #165, behind a warm-up)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [0]

    def fade(x, w):
        calls[0] += 1
        return deep(x, w) if calls[0] < LATE else torch.zeros_like(x)

    return infer(inputs, device, fade if switches.cheat else deep)
