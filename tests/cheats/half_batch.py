"""Trains on the first half of each batch (issue: dropping samples of a batch)."""

from costly import Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Half(Trainer):
    def differentiate(self, x, t):
        return super().differentiate(x[: len(x) // 2], t[: len(t) // 2])


def build(switches, inputs, case, shape, device):
    return (Half if switches.cheat else Trainer)(inputs, device).program()
