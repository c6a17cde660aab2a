"""Hands out its input, which is right until the next batch is written there."""

from honest_parts import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return infer((lambda x, w: x) if switches.cheat else (lambda x, w: x.clone()), inputs)
