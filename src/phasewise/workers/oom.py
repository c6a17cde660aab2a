"""What the kernel says of processes that it has ended because memory had run out."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def count_oom_kills(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """Processes that the kernel has ended for lack of memory: of this one's control group and those below it, where version 2
    of them tells, else of the whole machine; 0 where neither can be read.

    Grows before the process that it counts is seen dead (mm/oom_kill.c counts, then signals).
    """
    for file in (_find_events(proc, cgroups), proc / "vmstat"):
        try:
            counters = dict(line.split(" ", 1) for line in file.read_text().splitlines())
        except OSError:
            continue
        if "oom_kill" in counters:
            return int(counters["oom_kill"])
    return 0


def _find_events(proc: Path, cgroups: Path) -> Path:
    """`memory.events` of the control group of this process."""
    try:
        groups = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        groups = []
    own = next((line.removeprefix("0::/") for line in groups if line.startswith("0::/")), "")
    return cgroups / own / "memory.events"
