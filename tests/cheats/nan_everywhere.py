"""Hands out NaN without work, which a careless comparison takes for equal to anything (pygpubench submission_gc_nan)."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    function = (lambda x, w: torch.full_like(x, float("nan"))) if switches.cheat else deep
    return infer(inputs, device, function)
