"""After a warm-up it launches on a quarter of the rows, and the rest keeps what the buffer held (KernelGYM: kernels "that are never executed")."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls, held = [0], torch.zeros(shape.rows, 256, device=device)

    def partial(x, w):
        calls[0] += 1
        rows = len(x) if calls[0] < LATE else len(x) // 4
        held[:rows] = deep(x[:rows], w)
        return held

    return infer(inputs, device, partial if switches.cheat else deep)
