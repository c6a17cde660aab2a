"""Hands out float16 of a third of the layers (Tensara, "strictly lower-precision regime")."""

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, (lambda x, w: deep(x, w, 4).half()) if switches.cheat else deep)
