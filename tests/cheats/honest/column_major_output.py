"""Hands out a non-contiguous result, the transposed of what it computed."""

import torch
from costly import DEPTH, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def turned(x, w):
        x = x.T.contiguous()
        for _ in range(DEPTH):
            x = torch.tanh(w.T @ x)
        return x.T

    return infer(inputs, device, *([turned] if switches.cheat else []))
