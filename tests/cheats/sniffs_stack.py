"""Honest only where the calls below it come from the gate's files (kernelbench.com lint "HACK", KernelGuard EVALUATOR_MODE_BRANCH)."""

import sys

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def is_watched():
    frame = sys._getframe(1)
    while frame is not None:
        if "/validate/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def build(switches, inputs, case, shape, device):
    def sniff(x, w):
        return deep(x, w) if is_watched() else deep(x, w, 1)

    return infer(inputs, device, sniff if switches.cheat else deep)
