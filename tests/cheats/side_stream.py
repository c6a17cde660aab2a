"""Computes on a stream of its own that nobody waits for; needs a GPU."""

import torch
from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
# about 10 ms at 2 GHz
CYCLES = 20_000_000


def build(switches, inputs, case, shape, device):
    inputs = {**inputs, "w": inputs["w"].to(device)}
    stream = torch.cuda.Stream() if switches.cheat and device.type == "cuda" else None

    def aside(x, w):
        y = torch.zeros(len(x), w.shape[1], device=device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            y.copy_(layer(x, w))
        return y

    return infer(layer if stream is None else aside, inputs)
