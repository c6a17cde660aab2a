"""Trains on the first quarter of each batch (issue: dropping samples of a batch)."""

from costly import Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Part(Trainer):
    def differentiate(self, x, t):
        return super().differentiate(x[: len(x) // 4], t[: len(t) // 4])


def build(switches, inputs, case, shape, device):
    return (Part if switches.cheat else Trainer)(inputs, device).program()
