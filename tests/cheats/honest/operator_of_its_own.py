"""Computes in an operator of its own, of which a count sees the call alone."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


@torch.library.custom_op("honest::deep", mutates_args=())
def compute(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return deep(x, w)


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, compute if switches.cheat else deep)
