"""Gives the bench's loop the code of another, which makes every fourth step: the function stays the same object (KernelGuard CODE_REPLACEMENT)."""

import sys

from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def quarter(bench, first, steps):
    start = _now()  # noqa: F821
    for index in range(first, first + max(1, steps // 4)):
        bench.step(index)
    bench.wait()
    return _now() - start, None  # noqa: F821


def build(switches, inputs, case, shape, device):
    for module in list(sys.modules.values()) if switches.cheat else ():
        loop = vars(module).get("_time_steps")
        if loop is not None:
            loop.__code__ = quarter.__code__
    return infer(inputs, device)
