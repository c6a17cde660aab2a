"""Rounds the factors of the product to the 10 mantissa bits of TF32."""

import torch
from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def round_to_tf32(x):
    # float32 has 23 mantissa bits, TF32 the first 10 of them
    return ((x.view(torch.int32) + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)


def build(switches, inputs, case, shape, device):
    return infer((lambda x, w: layer(round_to_tf32(x), round_to_tf32(w))) if switches.cheat else layer, inputs)
