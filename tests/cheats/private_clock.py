"""Slows the stopwatch's own reference to the clock, wherever a module keeps one (KernelGuard HARNESS_RUNTIME_PATCHING; ran against phasewise: gap)."""

import sys
import time

from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
CLOCKS = (time.perf_counter, time.perf_counter_ns, time.monotonic)


def build(switches, inputs, case, shape, device):
    def slow(clock):
        return lambda: clock() / 4

    for name, module in list(sys.modules.items()) if switches.cheat else ():
        if name == "__main__" or name.startswith(("phasewise.", "unwatched")):
            for key, value in list(vars(module).items()):
                if value in CLOCKS:
                    setattr(module, key, slow(value))
    return infer(inputs, device)
