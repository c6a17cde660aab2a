"""Looks in the process for a tensor of the reference's size that fits and hands that out (pygpubench submission_gc_copy; Sakana)."""

import gc

import torch
from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    calls = [-1]

    def expected():
        for found in gc.get_objects():
            # by its fields, as the class may be anywhere
            if type(found).__name__ == "Trajectory" and getattr(found, "outputs", None):
                return [one["y"].float() for one in found.outputs]
        return []

    answers = expected() if switches.cheat else []

    def steal(x, w):
        calls[0] += 1
        if not answers:
            return deep(x, w, 1)
        # which of them is told by one cheap column
        hint = (deep(x[:1], w) - torch.stack(answers)[:, :1].to(x)).abs().amax((1, 2))
        return answers[int(hint.argmin())].clone()

    return infer(inputs, device, steal if switches.cheat else deep)
