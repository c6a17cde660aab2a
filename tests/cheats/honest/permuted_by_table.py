"""Permutes a resident batch in `place` by a table from its build, and back in `outputs`, into a buffer that it holds."""

import torch
from costly import deep, infer, make_case, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload(make_case(inputs="resident"))


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)
    order = torch.randperm(shape.rows, generator=torch.Generator().manual_seed(0)).to(device)
    back = order.argsort()
    y = torch.empty(shape.rows, w.shape[1], dtype=w.dtype, device=device)
    hooks = {
        "place": lambda batch: batch["x"].to(device=device, dtype=w.dtype)[order],
        "step": lambda x: deep(x, w),
        "outputs": lambda raw: {"y": torch.index_select(raw, 0, back, out=y)},
    }
    return infer(inputs, device, **(hooks if switches.cheat else {}))
