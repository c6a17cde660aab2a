"""Never moves the weights."""

from honest_parts import make_inputs, make_workload, train

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return train(inputs, rate=1e-4, is_due=lambda step: not switches.cheat)
