"""Gives the same outputs in another order, the mean first."""

from costly import deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)

    def step(x):
        y = deep(x, w)
        found = {"y": y, "mean": y.mean()}
        return dict(reversed(found.items())) if switches.cheat else found

    return infer(inputs, device, step=step)
