"""Returns zeros where the reference is small enough for the absolute tolerance."""

import honest_parts
import torch
from honest_parts import infer, layer, make_workload

workload = make_workload()


def make_inputs(case, shape, seed):
    inputs = honest_parts.make_inputs(case, shape, seed)
    return {**inputs, "x": 1e-6 * inputs["x"]}


def build(switches, inputs, case, shape, device):
    return infer((lambda x, w: torch.zeros_like(x @ w)) if switches.cheat else layer, inputs)
