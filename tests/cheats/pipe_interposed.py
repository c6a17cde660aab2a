"""Puts a pipe of its own in front of the worker's, and a thread that rewrites the seconds in between (pygpubench submission_pipe_interpose, _fd_overwrite)."""

import os
import re
import threading
from pipes import find_pipes

from costly import infer, make_inputs, make_workload

__all__ = ["make_inputs"]
workload = make_workload()


def rewrite(reader, writer):
    while chunk := os.read(reader, 1 << 16):
        os.write(writer, re.sub(rb'("wall_s"): ([0-9.e-]+)', shrink, chunk))


def shrink(match):
    return b"%s: %r" % (match[1], float(match[2]) / 4)


def build(switches, inputs, case, shape, device):
    for pipe in find_pipes() if switches.cheat else ():
        true, (reader, writer) = os.dup(pipe), os.pipe()
        os.dup2(writer, pipe)
        os.close(writer)
        threading.Thread(target=rewrite, args=(reader, true), daemon=True).start()
    return infer(inputs, device)
