"""The end of a worker. Imports no torch."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def leave() -> NoReturn:
    """End as an interpreter does, with its threads and its functions of `atexit`, and leave all else to the kernel: to take torch apart
    takes half a second, and of a forked process a fifth of one, for it writes to all the pages that the server gave.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # of a regular file that may be full
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(0)
