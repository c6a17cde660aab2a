"""Moves the weights half as far, with a gradient of a quarter of the batch (issue: a step that moves half)."""

from costly import Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Half(Trainer):
    def differentiate(self, x, t):
        loss = super().differentiate(x[: len(x) // 4], t[: len(t) // 4])
        self.gradient = self.gradient / 2
        return loss


def build(switches, inputs, case, shape, device):
    return (Half if switches.cheat else Trainer)(inputs, device).program()
