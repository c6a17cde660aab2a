"""Runs inside new namespaces, which `unshare` made: shuts the file system, gives all capabilities up, and becomes the command.

`python -m phasewise.workers.enclosed ORDER COMMAND...`; ORDER is {hidden, shown, scratch, folder} as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

# mount(2), mount_setattr(2), prctl(2), capabilities(7)
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC = 2, 4, 4096, 16384
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, CAPABILITIES = 24, 38, 64

LIBC = ctypes.CDLL(None, use_errno=True)


class Attributes(ctypes.Structure):
    """struct mount_attr"""

    _fields_ = [
        (name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")
    ]  # fmt: skip


def main(order: str, *command: str) -> None:
    """Shut the file system and become `command`; never returns."""
    asked = json.loads(order)
    # held open, since the folders that they lie in are about to be covered
    held = {name: os.open(name, os.O_PATH | os.O_CLOEXEC) for name in (*asked["shown"], asked["scratch"])}
    for name in asked["hidden"]:
        # what lies in another hidden folder is gone already
        if Path(name).is_dir():
            mount("tmpfs", name, "tmpfs", MS_NOSUID | MS_NODEV)
    for name, descriptor in held.items():
        show(name, descriptor)
    Path("/dev/shm").mkdir(exist_ok=True)
    Path(asked["folder"]).mkdir(parents=True, exist_ok=True)
    change("/", AT_RECURSIVE, Attributes(attr_set=MOUNT_ATTR_RDONLY))
    for name in (*asked["hidden"], asked["scratch"]):
        if os.path.ismount(name):
            change(name, 0, Attributes(attr_clr=MOUNT_ATTR_RDONLY))
    os.chdir(asked["folder"])
    for capability in range(CAPABILITIES):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    os.execvp(command[0], command)


def show(name: str, descriptor: int) -> None:
    """Mount what the descriptor holds at its own place."""
    source = f"/proc/self/fd/{descriptor}"
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if Path(source).is_dir():
        path.mkdir(exist_ok=True)
    else:
        path.touch(exist_ok=True)
    mount(source, name, "", MS_BIND | MS_REC)


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """As mount(2)."""
    check(LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, None), f"mount {target}")


def change(target: str, flags: int, attributes: Attributes) -> None:
    """As mount_setattr(2)."""
    size = ctypes.sizeof(attributes)
    done = LIBC.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, target.encode(), flags, ctypes.byref(attributes), size)
    check(done, f"change {target}")


def check(result: int, what: str) -> None:
    """Raise OSError where a call failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main(*sys.argv[1:])
