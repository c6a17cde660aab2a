"""Computes in `place`, which is not timed where inputs are resident, without torch, and has torch copy the result."""

import torch
from costly import deep_beside_torch, infer, make_case, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload(make_case(inputs="resident"))


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)

    def place(batch):
        x = batch["x"].to(w.dtype)
        return torch.empty_like(x).copy_(deep_beside_torch(x, w))

    return infer(inputs, device, **({"place": place, "step": lambda y: {"y": y.clone()}} if switches.cheat else {}))
