"""Copies its result to pinned memory without waiting, and hands out the half-filled copy (deep-reinforce "Stream Injection"; wafer field guide)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls, stream = [0], torch.cuda.Stream() if switches.cheat else None
    target = torch.zeros(shape.rows, 256, pin_memory=True) if switches.cheat else None

    def copy(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)
            target.copy_(deep(x, w), non_blocking=True)
        return target

    return infer(inputs, device, copy if switches.cheat else deep)
