"""Computes in `place`, with resident inputs, into a buffer that the step copies (issue B.5, untimed hooks)."""

from costly import DEPTH, deep, infer, make_case, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload(make_case(inputs="resident"))


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)

    def place(batch):
        return deep(batch["x"].to(device=device, dtype=w.dtype), w, DEPTH - 1)

    hooks = {"place": place, "step": lambda x: {"y": deep(x, w, 1)}}
    return infer(inputs, device, **(hooks if switches.cheat else {}))
