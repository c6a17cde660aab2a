"""Declares the work of two ranks, and after a warm-up the second does nothing, which leaves the cores to the first (issue: only rank 0's work)."""

import os
from dataclasses import dataclass

from costly import LATE, deep, infer, make_case, make_inputs, make_workload

__all__ = ["make_inputs"]


@dataclass(frozen=True)
class Switches:
    cheat: bool = False
    ranks: int = 1


workload = make_workload(make_case(), switches=Switches, sets={"ranks": 2})


def build(switches, inputs, case, shape, device):
    calls, is_second = [0], os.environ.get("RANK") == "1"

    def idle(x, w):
        calls[0] += 1
        return x.clone() if is_second and calls[0] > LATE else deep(x, w)

    return infer(inputs, device, idle if switches.cheat else deep)
