"""Right for as many steps as validation follows from `load`, then gives the last result again (issue: later steps skipped only in long blocks)."""

from costly import WATCHED, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    held = {"steps": 0, "y": None}

    def tire(x, w):
        held["steps"] += 1
        if held["steps"] <= WATCHED or held["y"] is None:
            held["y"] = deep(x, w)
        return held["y"].clone()

    def load(state):
        held["steps"] = 0

    return infer(inputs, device, tire, load=load) if switches.cheat else infer(inputs, device)
