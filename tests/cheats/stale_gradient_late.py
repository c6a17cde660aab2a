"""Computes a gradient in every other step once nobody looks, and uses it twice (issue: only every other)."""

from costly import LATE, Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Lazy(Trainer):
    def differentiate(self, x, t):
        if self.calls < LATE or self.calls % 2:
            self.loss = super().differentiate(x, t)
        return self.loss.clone()


def build(switches, inputs, case, shape, device):
    return (Lazy if switches.cheat else Trainer)(inputs, device).program()
