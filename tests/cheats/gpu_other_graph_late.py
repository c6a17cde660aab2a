"""Has two graphs, one of all layers and one of two, and replays the short one after a warm-up (KernelGuard SEQUENCE_BATCH_GRAPH)."""

import torch
from costly import DEPTH, LATE, deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    if not switches.cheat:
        return infer(inputs, device)
    w, calls, graphs = place_weight(inputs, device), [0], []
    static = inputs["x"].to(device=device, dtype=w.dtype)
    deep(static, w)
    for layers in (DEPTH, 2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = deep(static, w, layers)
        graphs.append((graph, y))

    def step(x):
        calls[0] += 1
        static.copy_(x)
        graph, y = graphs[calls[0] >= LATE]
        graph.replay()
        return {"y": y}

    return infer(inputs, device, step=step)
