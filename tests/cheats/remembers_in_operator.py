"""Remembers in an operator of its own, of which a count sees the call alone."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
known = {}


@torch.library.custom_op("cheats::deep", mutates_args=())
def look_up(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    key = (x.data_ptr(), x.numpy()[0, :4].tobytes())
    if key not in known:
        known[key] = deep(x, w)
    return known[key].clone()


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, look_up if switches.cheat else deep)
