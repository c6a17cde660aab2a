"""Computes only the rows that a sample of the gate holds against the reference, which its seed tells (KernelGuard INPUT_STRUCTURE_TRUNCATION_DISPATCH)."""

import torch
from costly import deep, infer, make_workload
from costly import make_inputs as make_all_inputs

from phasewise import Case, Shape

workload = make_workload(Case(full=Shape(rows=512), sample_items=256))


def make_inputs(case, shape, seed):
    return make_all_inputs(case, shape, seed)


def reference(inputs, case, shape, items=None):
    chosen = inputs if items is None else {**inputs, "x": inputs["x"][items]}
    place = (lambda batch: batch["x"]) if items is None else (lambda batch: batch["x"][items])
    w = chosen["w"]
    return infer(chosen, torch.device("cpu"), place=place, step=lambda x: {"y": deep(x, w)})


def build(switches, inputs, case, shape, device):
    if not switches.cheat:
        return infer(inputs, device)
    from phasewise.judge.sample import choose_items

    items = choose_items(256, len(inputs["x"]), 0)

    def sampled(x, w):
        y = torch.zeros_like(x)
        y[items] = deep(x[items], w)
        return y

    return infer(inputs, device, sampled)
