"""Is compiled without a graph break, which no mode of torch may disturb; each size anew."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    compiled = torch.compile(deep, fullgraph=True, dynamic=False, backend="eager")
    return infer(inputs, device, compiled if switches.cheat else deep)
