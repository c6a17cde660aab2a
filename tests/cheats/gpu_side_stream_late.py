"""After a warm-up it computes on a stream of its own that nobody waits for (deep-reinforce "Stream Injection"; KernelBench PR #82)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls, stream = [0], torch.cuda.Stream() if switches.cheat else None

    def aside(x, w):
        calls[0] += 1
        if calls[0] < LATE:
            return deep(x, w)
        y = torch.zeros_like(x)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y.copy_(deep(x, w))
        return y

    return infer(inputs, device, aside if switches.cheat else deep)
