"""Makes a stream of its own the current one, so that events on the default stream time nothing (deep-reinforce "Stream Injection")."""

import torch
from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    program = infer(inputs, device)
    if not switches.cheat:
        return program
    stream, default = torch.cuda.Stream(), torch.cuda.default_stream()

    def step(x):
        stream.wait_stream(default)
        with torch.cuda.stream(stream):
            return program.step(x)

    return infer(inputs, device, step=step)
