"""Puts a function of its own in the place of the bench's loop (KernelGuard GLOBALS_MUTATION, reference-kernels #162 `calculate_stats`)."""

import sys

from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    for module in list(sys.modules.values()) if switches.cheat else ():
        true = vars(module).get("_time_steps")
        if true is not None:
            module._time_steps = lambda bench, first, steps, true=true: true(bench, first, max(1, steps // 4))
    return infer(inputs, device)
