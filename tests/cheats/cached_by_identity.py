"""Places a canonical batch once and finds it again by its id, whatever it holds by then."""

from dataclasses import replace

import torch
from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    program = infer(layer, inputs)
    if not switches.cheat:
        return program
    placed = {}

    def place(batch):
        if id(batch) not in placed:
            # the batch is kept, so that its id stays its own
            placed[id(batch)] = batch, {"x": batch["x"].to(torch.float32)}
        return placed[id(batch)][1]

    return replace(program, place=place)
