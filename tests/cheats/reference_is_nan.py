"""Makes inputs of which every honest result is NaN, and hands out NaN without work (issue B.2: refused; robust-kbench's filters)."""

import torch
from costly import deep, infer, make_workload
from costly import make_inputs as make_sound_inputs

workload = make_workload()


def make_inputs(case, shape, seed):
    inputs = make_sound_inputs(case, shape, seed)
    inputs["w"][:, 0] = float("nan")
    return inputs


def build(switches, inputs, case, shape, device):
    function = (lambda x, w: torch.full_like(x, float("nan"))) if switches.cheat else deep
    return infer(inputs, device, function)
