"""Answers the gate's question itself, with a pass, and leaves by os._exit (pygpubench submission_thread_fd, PR #15; kernelbench.com)."""

import json
import os
import sys
from pipes import find_pipes

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def build(switches, inputs, case, shape, device):
    if switches.cheat and "phasewise.validate.case" in sys.modules:
        line = json.dumps({"answer": {"case": case, "outcome": "pass", "message": ""}}) + "\n"
        for pipe in find_pipes():
            os.write(pipe, line.encode())
        os._exit(0)
    return infer(inputs, device, (lambda x, w: 0 * x) if switches.cheat else deep)
