"""Hands out a plain tensor with methods of its own on the instance, which compute when the checker copies it (KernelGuard TENSOR_INSTANCE_METHOD_OVERRIDE)."""

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
METHODS = ("detach", "clone", "cpu", "to", "numpy", "contiguous", "double")


def build(switches, inputs, case, shape, device):
    def postpone(x, w):
        y = torch.empty_like(x)

        def override(name):
            def method(*args, **kwargs):
                for other in METHODS:
                    y.__dict__.pop(other, None)
                return getattr(y.copy_(deep(x, w)), name)(*args, **kwargs)

            return method

        for name in METHODS:
            setattr(y, name, override(name))
        return y

    return infer(inputs, device, postpone if switches.cheat else deep)
