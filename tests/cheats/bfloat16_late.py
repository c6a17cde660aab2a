"""Drops to bfloat16 after many calls and hands out float32 (deep-reinforce, "Partial"; Tensara's rule of a strictly lower precision)."""

import torch
from costly import DEPTH, LATE, deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls, narrow = [0], place_weight(inputs, device).bfloat16()

    def drop(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        x = x.bfloat16()
        for _ in range(DEPTH):
            x = torch.clamp(x @ narrow, -1, 1)
        return x.float()

    return infer(inputs, device, drop if switches.cheat else deep)
