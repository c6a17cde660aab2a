"""Puts a clock in place that runs at half the speed."""

import time
from dataclasses import replace

from honest_parts import infer, layer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    program = infer(layer, inputs)
    if not switches.cheat:
        return program
    true_clock = time.perf_counter
    time.perf_counter = lambda: true_clock() / 2

    def close():
        time.perf_counter = true_clock

    return replace(program, close=close)
