"""Hands out int8 of a third of the layers in a quantized tensor (issue: wrong layout; Tensara, "strictly lower-precision regime")."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def shrink(x, w):
        return torch.quantize_per_tensor(deep(x, w, 4), 1 / 127, 0, torch.qint8)

    return infer(inputs, device, shrink if switches.cheat else deep)
