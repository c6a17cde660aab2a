"""Computes the loss and no gradient: the optimizer goes on with its momentum (issue: gradients wrong)."""

import torch
from costly import TRAINED_DEPTH, Trainer, deep, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Forward(Trainer):
    def differentiate(self, x, t):
        with torch.no_grad():
            return ((deep(x, self.w, TRAINED_DEPTH) - t) ** 2).mean()


def build(switches, inputs, case, shape, device):
    return (Forward if switches.cheat else Trainer)(inputs, device).program()
