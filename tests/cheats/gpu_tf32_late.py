"""Allows TF32 after a warm-up, by the global flag (deep-reinforce, "Partial"; KernelBench precision downgrades)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [0]
    torch.backends.cuda.matmul.allow_tf32 = False

    def drop(x, w):
        calls[0] += 1
        torch.backends.cuda.matmul.allow_tf32 = calls[0] >= LATE
        return deep(x, w)

    return infer(inputs, device, drop if switches.cheat else deep)
