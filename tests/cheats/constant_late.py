"""Gives the mean of its results after many calls (KernelBench #165, robust-kbench's filter of constants, behind a warm-up)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    held = {"calls": 0, "mean": 0.0}

    def fade(x, w):
        held["calls"] += 1
        if held["calls"] >= LATE:
            return torch.full_like(x, held["mean"])
        y = deep(x, w)
        held["mean"] = float(y.mean())
        return y

    return infer(inputs, device, fade if switches.cheat else deep)
