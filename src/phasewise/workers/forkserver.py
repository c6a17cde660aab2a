"""Starting the fork servers of a run: `bench/forkserver.py`, from which workers are forked that need not import torch again."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from phasewise.workers.scratch import PREFIX, sweep_scratch

# where the server listens, for the processes of this run
SERVER = "PHASEWISE_FORK_SERVER"
# suffix of the socket of the one that has imported tools: those of a profile, or in a set of processes the compiler
TOOLED = ".tooled"
# torch.profiler asks the compiler whether it has something to annotate; torch-tb-profiler imports pandas
PROFILER = ("torch._inductor", "torch_tb_profiler.profiler.data")
# with what it finds out once a process, half of the time of a program whose kernels are in the cache: what the processor can do, and the
# hashes of all files of torch and Triton, by which it looks kernels up
COMPILER = (
    "torch._inductor.compile_fx",
    "torch._inductor.cpu_vec_isa:pick_vec_isa",
    "torch._inductor.codecache:torch_key",
    "triton.runtime.cache:triton_key",
)
# a server listens to its sockets by then
SETTLED_S = 60.0
# of a folder; the address of a socket has 107 in all
MOST_CHARACTERS = 70


def name_set(number: int) -> str:
    """Suffix of the socket of the server for this set of processes."""
    return f".set-{number}"


def start_fork_server(sets: int = 0) -> int:
    """Start servers for the workers of this process and of all that it starts from now on; they end when the returned descriptor is closed.

    Each of `sets` sets of processes has a server of its own, and one for what compiles.
    """
    sweep(_choose_folder())
    sweep_scratch(Path(tempfile.gettempdir()))
    path = str(Path(tempfile.mkdtemp(prefix=PREFIX, dir=_choose_folder())) / "forkserver")
    until, held = os.pipe()
    _start(path, PROFILER, until)
    for number in range(sets):
        _start(path + name_set(number), COMPILER, until)
    os.close(until)
    os.environ[SERVER] = path
    return held


def _start(path: str, tools: Sequence[str], until: int) -> None:
    """One server that listens here, as a fresh process, and there for what needs these tools."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(_listen(name)).fileno() for name in (path, path + TOOLED)]
        subprocess.Popen(
            [sys.executable, "-m", "phasewise.bench.forkserver", *map(str, listeners), *tools],
            stdin=until,
            stdout=subprocess.DEVNULL,
            pass_fds=listeners,
            # it hears of the end by its stdin, not by a Ctrl-C for the whole group, and cleans up
            start_new_session=True,
        )


def _choose_folder() -> Path:
    """The system's temporary folder, or the shortest that there is where a socket's address would be too long."""
    folder = Path(tempfile.gettempdir())
    return folder if len(str(folder)) <= MOST_CHARACTERS else Path("/tmp")


def sweep(folder: Path) -> None:
    """Remove what servers left that were killed: folders of ours with a socket that nobody listens to."""
    for left in folder.glob(f"{PREFIX}*"):
        about = left.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or time.time() - about.st_mtime < SETTLED_S:
            continue
        sockets = list(left.glob("forkserver*"))
        if sockets and not any(map(_is_heard, sockets)):
            shutil.rmtree(left, ignore_errors=True)


def _is_heard(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            # another kind of socket, or one that is gone already
            return True
    return True


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    return listener
