"""Adds in another order each time that its result is read, as a GPU's atomics do."""

import itertools

from honest_parts import layer, make_inputs, make_workload, weight

from phasewise import Program

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    w = weight(inputs)
    readings = itertools.count()

    def outputs(raw):
        backwards = switches.cheat and next(readings) % 2
        # Python's sum rounds after every row
        return {"sum": sum(raw.flip(0) if backwards else raw)}

    return Program(step=lambda placed: layer(placed["x"], w), outputs=outputs)
