"""A training step with state, twice."""

from costly import Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    return Trainer(inputs, device).program()
