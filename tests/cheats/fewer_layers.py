"""Leaves out half of the layers (Dr. Kernel, "lazy optimization")."""

from costly import DEPTH, deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, (lambda x, w: deep(x, w, DEPTH // 2)) if switches.cheat else deep)
