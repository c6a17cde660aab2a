"""Works in place in two buffers that it takes turns with, and hands out a copy."""

import torch
from costly import DEPTH, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)
    buffers = [torch.empty(shape.rows, w.shape[1], dtype=w.dtype, device=device) for _ in range(2)]

    def step(x):
        for layer in range(DEPTH):
            into = buffers[layer % 2]
            torch.tanh_(torch.matmul(x, w, out=into))
            x = into
        return {"y": x.clone()}

    return infer(inputs, device, **({"step": step} if switches.cheat else {}))
