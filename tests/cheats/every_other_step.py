"""Leaves out the optimizer in every other step, at a rate so small that the weights stay within the tolerance."""

from honest_parts import make_inputs, make_workload, train

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return train(inputs, rate=1e-4, is_due=(lambda step: step % 2 == 1) if switches.cheat else (lambda step: True))
