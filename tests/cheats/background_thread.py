"""Returns at once and lets a thread fill the output afterwards."""

import threading

import torch
from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def later(x, w):
        y = torch.zeros(len(x), w.shape[1])
        # late enough for the reader to be first
        threading.Timer(0.02, lambda: y.copy_(layer(x, w))).start()
        return y

    return infer(later if switches.cheat else layer, inputs)
