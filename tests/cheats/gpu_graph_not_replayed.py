"""Replays its CUDA graph in every fourth step once a warm-up is over (KernelGuard SEQUENCE_BATCH_GRAPH)."""

import torch
from costly import LATE, deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    if not switches.cheat:
        return infer(inputs, device)
    w, calls = place_weight(inputs, device), [0]
    static = inputs["x"].to(device=device, dtype=w.dtype)
    deep(static, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = deep(static, w)

    def step(x):
        calls[0] += 1
        static.copy_(x)
        if calls[0] < LATE or calls[0] % 4 == 0:
            graph.replay()
        return {"y": y}

    return infer(inputs, device, step=step)
