"""Declares a millionth of its work, so that no roof is above it, and skips after a warm-up (issue: declared work too low to pass above-peak)."""

from costly import LATE, deep, infer, make_inputs, make_workload

from phasewise import Work

__all__ = ["make_inputs"]
workload = make_workload()


def work(case, shape):
    return Work(items=1.0, flops=100.0, bytes=100.0)


def build(switches, inputs, case, shape, device):
    held = {"calls": 0, "y": None}

    def skip(x, w):
        held["calls"] += 1
        if held["calls"] < LATE:
            held["y"] = deep(x, w)
        return held["y"].clone()

    return infer(inputs, device, skip if switches.cheat else deep)
