"""Finds results again by the sum of the input and hands out copies, so that no poison gets in (flashinfer-bench-starter-kit #21, cache by fingerprint)."""

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    known = {}

    def find(x, w):
        key = float(x.sum())
        if key not in known:
            known[key] = deep(x, w)
        return known[key].clone()

    return infer(inputs, device, find if switches.cheat else deep)
