"""Memory of a worker: a cap on it, and the most that it used."""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from pathlib import Path

import torch

STATUS = Path("/proc/self/status")
# writing 5 resets the peak resident set size (proc_pid_clear_refs(5))
CLEAR_REFS = Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The most memory used since a watch began, and how that was found out."""

    bytes: int
    # "device-allocated" (torch's allocator), "device-used" (all of the device's), "host-resident"
    kind: str


@dataclass(frozen=True, kw_only=True)
class MemoryWatch:
    """What was in use when watching began."""

    device: torch.device
    # of the host by this process, or of the device by torch's allocator
    used: int
    # of the device by everyone
    device_used: int = 0
    # torch's allocator does not see the memory of JAX and CuPy
    foreign: bool = False

    def peak(self) -> Peak:
        """The most that was in use at once, above what was in use at the start."""
        if self.device.type != "cuda":
            return Peak(bytes=max(0, _status_bytes("VmHWM") - self.used), kind="host-resident")
        if self.foreign:
            return Peak(bytes=max(0, _device_used(self.device) - self.device_used), kind="device-used")
        used = torch.cuda.max_memory_allocated(self.device) - self.used
        return Peak(bytes=max(0, used), kind="device-allocated")


def watch_memory(device: torch.device) -> MemoryWatch:
    """Begin to watch; on a CPU the growth of this process's resident memory."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return MemoryWatch(device=device, used=torch.cuda.memory_allocated(device), device_used=_device_used(device))
    with contextlib.suppress(OSError):
        CLEAR_REFS.write_text("5")
    return MemoryWatch(device=device, used=_status_bytes("VmRSS"))


def limit_memory(limit_bytes: int, device: torch.device) -> None:
    """Let this process have at most `limit_bytes` more: of torch's device memory, or of private host memory."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        # a device without a number is refused, and None is the current one
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total), device.index)
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _status_bytes("VmData") + limit_bytes
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _device_used(device: torch.device) -> int:
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def _status_bytes(key: str) -> int:
    """A line of /proc/self/status; where there is none, the peak that the operating system keeps."""
    if not STATUS.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return 0
