"""Computes all layers but one in `place`, with resident inputs, and the last in the step (issue B.5, untimed hooks)."""

import torch
from costly import DEPTH, deep, infer, make_case, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload(make_case(inputs="resident"))


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)

    def place(batch):
        return deep(batch["x"].to(device=device, dtype=w.dtype), w, DEPTH - 1)

    def step(x):
        return {"y": torch.tanh(x @ w)}

    return infer(inputs, device, place=place, step=step) if switches.cheat else infer(inputs, device)
