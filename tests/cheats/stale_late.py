"""Gives the same old result after many calls, which a check of batch 0 against itself finds right (kernelbench.com, stale pointer)."""

from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    held = {"calls": 0, "first": None}

    def fade(x, w):
        held["calls"] += 1
        if held["first"] is None or held["calls"] < LATE:
            y = deep(x, w)
            held["first"] = y if held["first"] is None else held["first"]
            return y
        return held["first"].clone()

    return infer(inputs, device, fade if switches.cheat else deep)
