"""The first call after a block's start computes the whole ring in one go, the others look their result up (reference-kernels PR #104; KernelGuard
SEQUENCE_BATCH_GRAPH). It computes anew in every block, so that fresh contents cost no more than the same ones."""

import torch
from costly import deep, infer, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload()
RING = 4


def build(switches, inputs, case, shape, device):
    w, seen, known = place_weight(inputs, device), {}, {}

    def place(batch):
        seen[id(batch["x"])] = batch["x"]
        if len(seen) > RING:
            del seen[next(iter(seen))]
        return batch["x"]

    def step(x):
        key = float(x[0, 0])
        if key not in known:
            stacked = torch.cat(list(seen.values())).to(device=device, dtype=w.dtype)
            keys = [float(one[0, 0]) for one in seen.values()]
            known.update(zip(keys, deep(stacked, w).split(len(x)), strict=True))
        return {"y": known[key].clone()}

    if not switches.cheat:
        return infer(inputs, device)
    return infer(inputs, device, place=place, step=step, load=lambda state: known.clear())
