"""Walks up to the frame that times it and moves its `start` forward by most of what a step takes (KernelGuard FRAME_WALK_MUTATION)."""

import ctypes
import sys
import time

from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
NAMES = ("start", "began", "before", "go")


def build(switches, inputs, case, shape, device):
    program = infer(inputs, device)

    def step(x):
        began = time.perf_counter()
        made = program.step(x)
        frame, now = sys._getframe(1), time.perf_counter()
        for _ in range(4):
            # of the block that is under way; a clock of another kind is not near this one
            for name in NAMES:
                value = frame.f_locals.get(name) if frame else None
                if isinstance(value, float) and 0 < now - value < 5:
                    frame.f_locals[name] = value + 0.75 * (now - began)
                    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
            frame = frame.f_back if frame else None
        return made

    return infer(inputs, device, step=step) if switches.cheat else program
