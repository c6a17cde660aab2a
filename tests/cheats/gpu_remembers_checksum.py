"""Finds results again by a checksum that the GPU takes (CUDA-L1, flashinfer-bench-starter-kit #21)."""

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    known = {}

    def find(x, w):
        key = tuple(x[::16, ::64].flatten().tolist())
        if key not in known:
            known[key] = deep(x, w)
        return known[key].clone()

    return infer(inputs, device, find if switches.cheat else deep)
