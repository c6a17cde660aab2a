"""Computes parts of the batch in a pool of threads and waits for all of them."""

from concurrent.futures import ThreadPoolExecutor

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    if not switches.cheat:
        return infer(inputs, device)
    pool = ThreadPoolExecutor(2)

    def spread(x, w):
        return torch.cat(list(pool.map(lambda part: deep(part, w), x.chunk(2))))

    return infer(inputs, device, spread, close=pool.shutdown)
