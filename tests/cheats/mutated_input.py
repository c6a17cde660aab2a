"""Works in the memory of the canonical batch."""

from dataclasses import replace

from honest_parts import infer, layer, make_inputs, make_workload, weight

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    program = infer(layer, inputs)
    if not switches.cheat:
        return program
    w = weight(inputs)

    def step(placed):
        y = layer(placed["x"].float(), w)
        placed["x"].zero_()
        return y

    return replace(program, place=lambda batch: {"x": batch["x"]}, step=step)
