"""A command with all that it starts, as one group of processes that does not outlive the one that started it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from phasewise.workers.guarded import guard_group

# handed on to the whole group
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_group(
    command: Sequence[str], environment: Mapping[str, str], *, output: IO[bytes] | None = None, kept: Sequence[int] = ()
) -> int:
    """The exit status of `command`, negative for a signal; what it has started ends with it, or with this process.

    Signals that this process gets go to all of the group: by itself Snakemake would let its jobs run to their end. `output` is where its
    lines and errors go, if not to ours; the open files `kept` are its own too, and are closed here once it has them.
    """
    error = None if output is None else subprocess.STDOUT
    with guard_group() as group:
        child = subprocess.Popen(
            command, env=environment, process_group=group, stdout=output, stderr=error, pass_fds=kept
        )
        for file in kept:
            os.close(file)
        with _hand_on(group):
            code = child.wait()
            os.killpg(group, signal.SIGKILL)
    return code


@contextlib.contextmanager
def _hand_on(group: int) -> Iterator[None]:
    """Hand the signals on that are not ignored, as under nohup."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, lambda number, frame: os.killpg(group, number))
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
