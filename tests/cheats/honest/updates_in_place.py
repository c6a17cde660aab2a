"""Trains with in-place updates of tensors that it hands out as its state."""

from costly import MOMENTUM, RATE, Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class InPlace(Trainer):
    def update(self):
        self.momentum.mul_(MOMENTUM).add_(self.gradient)
        self.w.add_(self.momentum, alpha=-RATE)


def build(switches, inputs, case, shape, device):
    return (InPlace if switches.cheat else Trainer)(inputs, device).program()
