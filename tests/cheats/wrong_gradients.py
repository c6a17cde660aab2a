"""Outputs and weights are right, the gradients it shows are not."""

from honest_parts import make_inputs, make_workload, train

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return train(inputs, gradient_factor=1.01 if switches.cheat else 1.0)
