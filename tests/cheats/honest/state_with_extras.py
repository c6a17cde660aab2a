"""Has more in its state than the baseline: a count of its steps, which `load` takes back."""

import torch
from costly import Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Counting(Trainer):
    def load(self, state):
        super().load(state)
        self.steps = int(state["count"])

    def state(self):
        return {**super().state(), "count": torch.tensor(self.steps)}


def build(switches, inputs, case, shape, device):
    return (Counting if switches.cheat else Trainer)(inputs, device).program()
