"""Trains for as many steps as validation follows from `load`, then gives the last loss again (issue: training that skips after K steps)."""

from costly import WATCHED, Trainer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


class Tired(Trainer):
    def step(self, placed):
        if self.steps < WATCHED:
            self.last = super().step(placed)
        return {"loss": self.last["loss"].clone()}


def build(switches, inputs, case, shape, device):
    return (Tired if switches.cheat else Trainer)(inputs, device).program()
