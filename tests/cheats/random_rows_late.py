"""After many calls it computes a quarter of the rows, drawn by a generator of its own, and guesses the rest (KernelGuard INPUT_STRUCTURE_TRUNCATION_DISPATCH)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls, generator = [0], torch.Generator().manual_seed(0)

    def draw(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        chosen = torch.randperm(len(x), generator=generator)[: len(x) // 4]
        y = torch.zeros_like(x)
        y[chosen] = deep(x[chosen], w)
        return y

    return infer(inputs, device, draw if switches.cheat else deep)
