"""Lets a thread fill the output after the step when many calls were made; until then it waits for it (deep-reinforce, background thread; wafer field guide)."""

import threading

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls, waiting = [0], []

    def fill():
        while waiting:
            x, w, y = waiting.pop()
            y.copy_(deep(x, w))

    def later(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        y = torch.zeros_like(x)
        waiting.append((x, w, y))
        # of a long block only the end is ever computed, and late
        del waiting[:-1]
        threading.Timer(0.01, fill).start() if len(waiting) == 1 and calls[0] % 64 == 0 else None
        return y

    return infer(inputs, device, later if switches.cheat else deep)
