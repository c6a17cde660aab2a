"""What the kernel says of memory: what is free, and which processes it has ended because none was."""

from __future__ import annotations

from pathlib import Path

import psutil

from phasewise.records.base import Bytes

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def count_oom_kills(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Processes that the kernel has ended for lack of memory: in this control group and those below it (cgroup v2), or else on the
    whole machine; 0 where neither can be read.

    Grows before the process that it counts is seen dead (mm/oom_kill.c counts, then signals).
    """
    for file in (_find_group(proc, cgroups) / "memory.events", proc / "vmstat"):
        counters = _read_counters(file)
        if "oom_kill" in counters:
            return counters["oom_kill"]
    return 0


def count_free_bytes(proc: Path = PROC, cgroups: Path = CGROUPS) -> Bytes:
    """Host memory that this process can still take without another's being paged out; less where its control group has a limit."""
    free = psutil.virtual_memory().available
    group = _find_group(proc, cgroups)
    try:
        limit, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
    except (OSError, ValueError):
        # there is no such group, or it says "max"
        return free
    # pages of files that nobody uses are given back first
    kept = used - _read_counters(group / "memory.stat").get("inactive_file", 0)
    return min(free, max(0, limit - kept))


def _read_counters(file: Path) -> dict[str, int]:
    """Lines of a name and a number; empty where the file can't be read."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    return {name: int(value) for name, value in (line.split(" ", 1) for line in lines)}


def _find_group(proc: Path, cgroups: Path) -> Path:
    """Folder of the control group of this process."""
    try:
        groups = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        groups = []
    own = next((line.removeprefix("0::/") for line in groups if line.startswith("0::/")), "")
    return cgroups / own
