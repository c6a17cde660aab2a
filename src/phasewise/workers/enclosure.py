"""A process apart from the rest of the machine: no network, no other process to be seen, nothing to write to but a folder of its own.

Bubblewrap does it where it is installed, else `unshare` of util-linux with `workers/enclosed.py`. Imports no torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from phasewise.records.errors import UserError

# where sockets of services, files of other programs and disks lie
HIDDEN = ("/tmp", "/var/tmp", "/run", "/dev")
# devices that are there nevertheless
DEVICES = ("null", "zero", "full", "random", "urandom", "nvidia*")
# what a program may keep between two of its processes: caches of what was compiled
CACHES = {
    "TMPDIR": "tmp", "XDG_CACHE_HOME": "cache", "TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions", "CUDA_CACHE_PATH": "cuda",
}  # fmt: skip
BUBBLEWRAP, UNSHARE, AS_ROOT = "bubblewrap", "user namespaces", "namespaces, as root without capabilities"
WRAPS = {
    BUBBLEWRAP: ("bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
    UNSHARE: (
        "setpriv", "--pdeathsig", "KILL", "unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--ipc", "--fork",
        "--kill-child", "--mount-proc",
    ),
    AS_ROOT: (
        "setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc",
    ),
}  # fmt: skip
# processes from the one that is started to the Python inside, at most
MOST_BETWEEN = 4
TRIAL_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Enclosure:
    """What a process may see and write."""

    # a key of WRAPS
    kind: str
    # exists; the only folder that it may write to
    scratch: Path
    # folders and files that it sees although they lie in a hidden folder; one that itself holds a hidden folder is left out
    shown: tuple[Path, ...] = ()
    # folders that are empty to it, besides HIDDEN and that for temporary files
    hidden: tuple[Path, ...] = ()

    def wrap(self, command: Sequence[str], folder: Path) -> list[str]:
        """The command that runs `command` in there, in `folder`."""
        places = dict.fromkeys((*HIDDEN, tempfile.gettempdir(), *map(str, self.hidden)))
        hidden = [name for name in places if Path(name).is_dir() and not Path(name).is_symlink()]
        shown = [str(path) for path in (*self.shown, *_find_python()) if _is_uncovered(path, hidden)]
        devices = [str(path) for name in DEVICES for path in sorted(Path("/dev").glob(name))]
        if self.kind == BUBBLEWRAP:
            arguments = ["--ro-bind", "/", "/", "--proc", "/proc"]
            arguments += [word for name in hidden for word in ("--dev" if name == "/dev" else "--tmpfs", name)]
            arguments += [word for name in devices for word in ("--dev-bind", name, name)]
            arguments += [word for name in shown for word in ("--ro-bind", name, name)]
            arguments += [
                "--bind",
                str(self.scratch),
                str(self.scratch),
                "--dir",
                str(folder),
                "--chdir",
                str(folder),
                "--",
            ]
            return [*WRAPS[self.kind], *arguments, *command]
        order = {"hidden": hidden, "shown": [*devices, *shown], "scratch": str(self.scratch), "folder": str(folder)}
        inside = (sys.executable, "-m", "phasewise.workers.enclosed", json.dumps(order))
        return [*WRAPS[self.kind], *inside, *command]

    @property
    def environment(self) -> dict[str, str]:
        """Where programs keep what they compile."""
        found = {name: str(self.scratch / folder) for name, folder in CACHES.items()}
        for path in found.values():
            Path(path).mkdir(exist_ok=True)
        return found


def find_enclosure(scratch: Path) -> str:
    """What can enclose processes here: the first of WRAPS that does.

    :raises UserError: none does
    """
    for kind in WRAPS:
        if _holds(Enclosure(kind=kind, scratch=scratch)):
            return kind
    raise UserError(
        "--isolated: neither bubblewrap nor user namespaces work here; install bubblewrap, allow user namespaces (in a container: "
        "--security-opt seccomp=unconfined), or leave the option out if you trust the author"
    )


def find_inner(pid: int) -> int:
    """The process id out here of the Python that the wrapper `pid` runs; `pid` itself while that can't be told."""
    python = os.path.realpath(sys.executable)
    inner = pid
    for _ in range(MOST_BETWEEN):
        with suppress(OSError):
            if os.path.realpath(f"/proc/{inner}/exe") == python:
                return inner
            children = Path(f"/proc/{inner}/task/{inner}/children").read_text().split()
            inner = int(children[-1]) if children else inner
    return pid


def _holds(enclosure: Enclosure) -> bool:
    """Whether a process in there has no network, and can't write where the interpreter lies."""
    code = f"import os, socket, sys; sys.exit(os.access({sys.prefix!r}, os.W_OK) or len(socket.if_nameindex()) > 1)"
    command = enclosure.wrap([sys.executable, "-I", "-c", code], enclosure.scratch)
    try:
        package = str(Path(__file__).parents[2])
        done = subprocess.run(
            command, capture_output=True, timeout=TRIAL_S, check=False, env={**os.environ, "PYTHONPATH": package}
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _find_python() -> Iterator[Path]:
    """What every process imports from."""
    yield from (Path(sys.prefix), Path(sys.base_prefix))
    yield from (Path(entry) for entry in sys.path if entry and Path(entry).exists())


def _is_uncovered(path: Path, hidden: Sequence[str]) -> bool:
    """Whether it lies in a hidden folder, and holds none."""
    place = path.resolve()
    return any(place.is_relative_to(one) for one in hidden) and not any(
        Path(one).is_relative_to(place) for one in hidden
    )
