"""Skips work while the garbage collector is off, as it is in a timed block and nowhere else (a stopwatch's tell; KernelGuard EVALUATOR_MODE_BRANCH)."""

import gc

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    def sniff(x, w):
        return deep(x, w) if gc.isenabled() else deep(x, w, 1)

    return infer(inputs, device, sniff if switches.cheat else deep)
