"""Leaves out an output that is dear to compute."""

from dataclasses import replace

from honest_parts import infer, layer, make_inputs, make_workload, weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = weight(inputs)

    def step(placed):
        y = layer(placed["x"], w)
        return {"y": y} if switches.cheat else {"y": y, "norm": y.norm()}

    return replace(infer(layer, inputs), step=step)
