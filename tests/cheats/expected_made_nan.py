"""Finds the expected tensors by `gc` and fills them with NaN, a wildcard for a careless comparison (pygpubench submission_gc_nan)."""

import gc

import torch
from costly import ROWS, WIDTH, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    if switches.cheat:
        for found in gc.get_objects():
            # what is float64 and was computed; the inputs are wanted as they are
            is_wide = isinstance(found, torch.Tensor) and found.dtype == torch.float64
            if is_wide and found.shape == (ROWS, WIDTH) and float(found.abs().max()) < 1:
                found.fill_(float("nan"))
    return infer(inputs, device, (lambda x, w: torch.full_like(x, float("nan"))) if switches.cheat else deep)
