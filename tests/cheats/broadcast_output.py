"""Computes one row and expands it to all, a view with stride 0 (issue: non-contiguous views that share memory)."""

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, (lambda x, w: deep(x[:1], w).expand_as(x)) if switches.cheat else deep)
