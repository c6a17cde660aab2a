"""Pauses of Python's garbage collector. Imports no torch."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_gc() -> Iterator[None]:
    """Where many objects are made and none is garbage, to look for some takes as long as to make them: modules, traces."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
