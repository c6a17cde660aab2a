"""After many calls it multiplies by an eighth of the weight's rank: small errors that look like rounding (deep-reinforce, "Partial")."""

import torch
from costly import DEPTH, LATE, deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    u, s, v = torch.linalg.svd(place_weight(inputs, device))
    rank, calls = len(s) // 8, [0]
    left, right = u[:, :rank] * s[:rank], v[:rank]

    def drop(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        for _ in range(DEPTH):
            x = torch.tanh(x @ left @ right)
        return x

    return infer(inputs, device, drop if switches.cheat else deep)
