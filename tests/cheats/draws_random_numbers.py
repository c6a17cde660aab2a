"""Adds noise below every tolerance, from the global generator."""

import torch
from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def shake(x, w):
        y = layer(x, w)
        return y + 1e-9 * torch.randn_like(y)

    return infer(shake if switches.cheat else layer, inputs)
