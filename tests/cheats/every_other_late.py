"""After many calls it leaves out every other step and gives the result of the one before (issue: only every other)."""

from costly import LATE, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    held = {"calls": 0, "y": None}

    def skip(x, w):
        held["calls"] += 1
        if held["calls"] < LATE or held["calls"] % 2:
            held["y"] = deep(x, w)
        return held["y"].clone()

    return infer(inputs, device, skip if switches.cheat else deep)
