"""Gives NaN after many calls, which compares with nothing (pygpubench submission_gc_nan: NaN as a wildcard)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [0]

    def fade(x, w):
        calls[0] += 1
        return deep(x, w) if calls[0] < LATE else torch.full_like(x, float("nan"))

    return infer(inputs, device, fade if switches.cheat else deep)
