"""Ends its gate by sys.exit, and a function of atexit answers with a pass (pygpubench submission_file_struct; remedy os._exit in its PR #15)."""

import atexit
import json
import os
import sys
from pipes import find_pipes

from costly import deep, infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def answer():
    line = json.dumps({"answer": {"case": "main", "outcome": "pass", "message": ""}}) + "\n"
    for pipe in find_pipes():
        os.write(pipe, line.encode())


def build(switches, inputs, case, shape, device):
    if switches.cheat and "phasewise.validate.case" in sys.modules:
        atexit.register(answer)
        sys.exit(0)
    return infer(inputs, device, (lambda x, w: 0 * x) if switches.cheat else deep)
