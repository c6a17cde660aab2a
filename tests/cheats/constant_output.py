"""Returns the mean everywhere, which the absolute tolerance would let through."""

import honest_parts
from honest_parts import infer, layer, make_workload

workload = make_workload()


def make_inputs(case, shape, seed):
    inputs = honest_parts.make_inputs(case, shape, seed)
    return {**inputs, "x": 1e-6 * inputs["x"]}


def build(switches, inputs, case, shape, device):
    def mean(x, w):
        y = layer(x, w)
        return y.mean().expand_as(y).clone()

    return infer(mean if switches.cheat else layer, inputs)
