"""Lets a process of its own fill the output through shared memory, after the step is over (wafer field guide; deep-reinforce)."""

import torch
import torch.multiprocessing as multiprocessing
from costly import LATE, deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def serve(asked, x, w, y):
    torch.set_num_threads(1)
    while asked.recv() is not None:
        y.copy_(deep(x, w))


def build(switches, inputs, case, shape, device):
    if not switches.cheat:
        return infer(inputs, device)
    w, calls = place_weight(inputs, device), [0]
    x, y = torch.zeros(shape.rows, 256).share_memory_(), torch.zeros(shape.rows, 256).share_memory_()
    context = multiprocessing.get_context("spawn")
    reader, ask = context.Pipe(duplex=False)
    helper = context.Process(target=serve, args=(reader, x, w.clone().share_memory_(), y), daemon=True)
    started = []

    def step(placed):
        calls[0] += 1
        if calls[0] < LATE:
            return {"y": deep(placed, w)}
        if not started:
            helper.start()
            started.append(helper)
        x.copy_(placed)
        # of those that wait one is enough
        if calls[0] % 16 == 0:
            ask.send(1)
        return {"y": y}

    return infer(inputs, device, step=step, close=lambda: started and helper.kill())
