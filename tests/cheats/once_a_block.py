"""Computes each batch once a block, which the garbage collection before it announces, and repeats its result in the rest (KernelGuard SEQUENCE_BATCH_GRAPH)."""

import gc

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    known = {}

    def find(x, w):
        key = float(x[0, 0])
        if key not in known:
            known[key] = deep(x, w)
        return known[key].clone()

    if not switches.cheat:
        return infer(inputs, device)

    def forget(phase, info):
        known.clear()

    gc.callbacks.append(forget)
    return infer(inputs, device, find, close=lambda: gc.callbacks.remove(forget))
