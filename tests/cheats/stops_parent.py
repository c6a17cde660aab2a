"""Stops the workers beside it for moments while it is not asked: the parent looks slow (issue B.8; kernelbench.com, `pkill -f python`)."""

import os
import signal
import threading
import time
from pathlib import Path

from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()
IDLE_S, MOMENT_S = 0.004, 0.003
NAME = "cheat"


def siblings():
    """The bench workers that the process which started this one has started too."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                # two that stop each other would wait for ever
                is_free = (folder / "comm").read_text().strip() != NAME
                if (
                    is_free
                    and parent == os.getppid()
                    and b"phasewise.bench.worker" in (folder / "cmdline").read_bytes()
                ):
                    found.append(int(folder.name))
        except OSError:
            continue
    return found


def build(switches, inputs, case, shape, device):
    program, last, open_ = infer(inputs, device), [time.monotonic()], [True]

    def stop():
        while open_[0]:
            time.sleep(MOMENT_S)
            others = siblings() if time.monotonic() - last[0] > IDLE_S else []
            for how in (signal.SIGSTOP, signal.SIGCONT):
                for other in others:
                    try:
                        os.kill(other, how)
                    except ProcessLookupError:
                        continue
                time.sleep(MOMENT_S if how is signal.SIGSTOP else 0)

    def step(x):
        last[0] = time.monotonic() + 10
        made = program.step(x)
        last[0] = time.monotonic()
        return made

    if not switches.cheat:
        return program
    Path("/proc/self/comm").write_text(NAME)
    threading.Thread(target=stop, daemon=True).start()
    return infer(inputs, device, step=step, close=lambda: open_.__setitem__(0, False))
