"""The end of a worker. Imports no torch."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def leave() -> NoReturn:
    """End threads and run functions of `atexit`, as an interpreter does, and leave all else to the kernel: taking torch apart takes
    half a second, or a fifth in a forked process, where it writes to all pages that the process shares with its server.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # it may be a file on a full disk
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(0)
