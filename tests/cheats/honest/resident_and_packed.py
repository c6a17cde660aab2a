"""Copies a resident batch into a padded layout in `place`, with the number of its rows: untimed, and no work of the step."""

import torch
from costly import deep, infer, make_case, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload(make_case(inputs="resident"))


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)

    def place(batch):
        padded = torch.zeros(shape.rows + 16, w.shape[0], dtype=w.dtype, device=device)
        padded[: shape.rows] = batch["x"]
        return {"padded": padded, "rows": torch.tensor([shape.rows])}

    def step(placed):
        return {"y": deep(placed["padded"], w)[: int(placed["rows"])]}

    return infer(inputs, device, place=place, step=step) if switches.cheat else infer(inputs, device)
