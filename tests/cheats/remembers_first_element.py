"""Finds results again by the first element of the input (KernelGuard's 17 rules of POINTER_REPLAY and its kin)."""

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    known = {}

    def find(x, w):
        key = float(x[0, 0])
        if key not in known:
            known[key] = deep(x, w)
        return known[key].clone()

    return infer(inputs, device, find if switches.cheat else deep)
