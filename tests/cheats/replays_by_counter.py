"""Counts its calls: after many it hands out what it gave at the same place of the ring (CUDA-L1, call counter)."""

from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
RING = 4


def build(switches, inputs, case, shape, device):
    given, since = [], [0]

    def replay(x, w):
        if len(given) < LATE:
            given.append(deep(x, w))
            return given[-1]
        since[0] += 1
        return given[LATE - RING + (since[0] - 1) % RING].clone()

    def load(state):
        since[0] = 0

    return infer(inputs, device, replay, load=load) if switches.cheat else infer(inputs, device)
