"""Hands out the transposed result of half the layers, as if layout were the same as shape (issue: wrong layout)."""

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, (lambda x, w: deep(x, w, 6).T) if switches.cheat else deep)
