"""Goes on from where it was when it is told to load a state."""

from honest_parts import make_inputs, make_workload, train

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return train(inputs, loads=not switches.cheat)
