"""Computes in `place`, which is not timed where inputs are resident, without torch."""

from costly import deep_beside_torch, infer, make_case, make_inputs, make_workload, place_weight

__all__ = ["make_inputs"]
workload = make_workload(make_case(inputs="resident"))


def build(switches, inputs, case, shape, device):
    w = place_weight(inputs, device)
    hooks = {"place": lambda batch: deep_beside_torch(batch["x"].to(w.dtype), w), "step": lambda y: {"y": y.clone()}}
    return infer(inputs, device, **(hooks if switches.cheat else {}))
