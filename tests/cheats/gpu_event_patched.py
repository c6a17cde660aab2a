"""Makes the elapsed time of every event a tenth: an attribute of the class, which stays the same (reference-kernels #162)."""

import torch
from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    if switches.cheat:
        true = torch.cuda.Event.elapsed_time
        torch.cuda.Event.elapsed_time = lambda self, end: true(self, end) / 10
    return infer(inputs, device)
