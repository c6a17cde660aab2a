"""Keeps all cores busy from threads of its own while it is not asked: the parent looks slow (issue B.8)."""

import multiprocessing
import os
import time

from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
# a moment after its last step, the others' turn has come
IDLE_S = 0.004


def burn(last):
    until = time.monotonic() + 40
    while time.monotonic() < until and os.getppid() != 1:
        if time.monotonic() - last.value < IDLE_S:
            time.sleep(0.0005)


def build(switches, inputs, case, shape, device):
    program = infer(inputs, device)
    if not switches.cheat:
        return program
    context = multiprocessing.get_context("fork")
    last = context.Value("d", time.monotonic(), lock=False)
    burners = [context.Process(target=burn, args=(last,), daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for burner in burners:
        burner.start()

    def step(x):
        # while it works nobody burns, however long that takes
        last.value = time.monotonic() + 10
        made = program.step(x)
        last.value = time.monotonic()
        return made

    return infer(inputs, device, step=step, close=lambda: [burner.kill() for burner in burners])
