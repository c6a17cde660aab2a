"""Hands out the first half of the rows only (KernelGuard INPUT_STRUCTURE_TRUNCATION_DISPATCH)."""

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return infer(inputs, device, (lambda x, w: deep(x[: len(x) // 2], w)) if switches.cheat else deep)
