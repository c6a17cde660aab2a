"""A job's part of its GPU: how it gets the GPU alone for what it times, and who waits there meanwhile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from phasewise.environment import LANES, POOL, visible_entries

# open in every process that has a CUDA context, and in none that only asks NVML
CUDA_FILE = "/dev/nvidia-uvm"

Alone = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class Lane:
    """What a job has of its GPU; by default all of it for its whole life."""

    # nobody else builds or times on the GPU inside
    alone: Alone = contextlib.nullcontext
    # of the GPU's memory and of its cores
    share: float = 1.0
    # processes of other jobs that have the GPU open
    at_rest: Callable[[], frozenset[int]] = frozenset

    @property
    def is_whole(self) -> bool:
        return self.share == 1.0


class Crowded(Exception):
    """Memory ran out beside jobs in other lanes: it may suffice without them."""


def find_at_rest(processes: Path = Path("/proc")) -> frozenset[int]:
    """Processes of this run, ours among them, with a CUDA context on our GPUs: while one job is alone there, the others' rest."""
    return frozenset(int(entry.name) for entry in processes.iterdir() if entry.name.isdecimal() and _is_ours(entry))


def _is_ours(process: Path) -> bool:
    # it may be another user's, or gone
    with contextlib.suppress(OSError):
        fields = (process / "environ").read_bytes().decode(errors="replace").split("\0")
        told = dict(field.partition("=")[::2] for field in fields)
        if any(told.get(name) != os.environ.get(name) for name in (POOL, LANES)):
            return False
        if not set(_entries(told)) & set(_entries(os.environ)):
            return False
        return any(_target(file) == CUDA_FILE for file in (process / "fd").iterdir())
    return False


def _entries(environment: Mapping[str, str]) -> tuple[str, ...]:
    return visible_entries(environment.get("CUDA_VISIBLE_DEVICES", ""))


def _target(file: Path) -> str:
    with contextlib.suppress(OSError):
        return str(file.readlink())
    return ""
