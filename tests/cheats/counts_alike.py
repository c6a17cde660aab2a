"""Remembers, and calls as many operators on a single element as it has saved."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    known, one = {}, torch.ones(1, 1)

    def pretend(x, w):
        key = x.numpy()[0, :4].tobytes()
        if key in known:
            deep(one, one)
        else:
            known[key] = deep(x, w)
        return known[key].clone()

    return infer(inputs, device, pretend if switches.cheat else deep)
