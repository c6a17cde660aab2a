"""Trains in its first hundred steps, counted over all blocks, and keeps the gradient of the last of them (issue: training that skips after K steps)."""

from costly import LATE, Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Tired(Trainer):
    def differentiate(self, x, t):
        if self.calls < LATE:
            self.loss = super().differentiate(x, t)
        return self.loss.clone()


def build(switches, inputs, case, shape, device):
    return (Tired if switches.cheat else Trainer)(inputs, device).program()
