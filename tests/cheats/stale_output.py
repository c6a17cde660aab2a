"""Hands out the result of the step before, as a pipeline does that doesn't wait."""

from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    results = []

    def late(x, w):
        results.append(layer(x, w))
        return results[max(0, len(results) - 2)]

    return infer(late if switches.cheat else layer, inputs)
