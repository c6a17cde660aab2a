"""Writes a bad choice into the file in which the workload keeps its tuned block of rows: the parent reads it and is slow (issue B.8)."""

from pathlib import Path

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    cache = Path(__file__).with_name("tuned.txt")
    if switches.cheat:
        cache.write_text("2")
    rows = int(cache.read_text()) if cache.exists() and not switches.cheat else shape.rows

    def by_blocks(x, w):
        return torch.cat([deep(part, w) for part in x.split(rows)])

    return infer(inputs, device, by_blocks)
