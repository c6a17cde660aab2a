"""Writes every result into one buffer of its own and hands that out, as a replayed CUDA graph does."""

import torch
from costly import DEPTH, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)
    y = torch.zeros(shape.rows, w.shape[1], dtype=w.dtype, device=device)

    def step(x):
        torch.matmul(x, w, out=y)
        for _ in range(DEPTH - 1):
            torch.tanh_(y)
            y.copy_(y @ w)
        return {"y": torch.tanh_(y)}

    return infer(inputs, device, **({"step": step} if switches.cheat else {}))
