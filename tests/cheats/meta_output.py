"""Hands out a tensor that has a shape and no contents (issue: meta; KernelGYM, kernels "that are never executed")."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    function = (lambda x, w: torch.empty_like(x, device="meta")) if switches.cheat else deep
    return infer(inputs, device, function)
