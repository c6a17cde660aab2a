"""Sensors of an NVIDIA GPU through NVML; absent without complaint where there is none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from phasewise.environment import find_gpu, visible_entries
from phasewise.records.machine import Sensors

T = TypeVar("T")

# nvml.h: nvmlClocksEventReasonGpuIdle; between two blocks a GPU may be idle, which throttles nothing
IDLE_BIT = 0x1


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML sees it."""

    nvml: ModuleType
    handle: Any
    began: float

    def read(self) -> Sensors:
        """Clock, power, temperature and throttle reasons, each None where the driver does not tell."""
        nvml, handle = self.nvml, self.handle
        power = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        bits = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        usage = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        return Sensors(
            at_s=time.perf_counter() - self.began,
            sm_clock_mhz=self._ask(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
            power_w=None if power is None else power / 1000,
            temperature_c=self._ask(lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
            utilisation_percent=None if usage is None else float(usage.gpu),
            memory_used_bytes=None if memory is None else int(memory.used),
            throttle_bits=None if bits is None else int(bits) & ~IDLE_BIT,
        )

    def energy_j(self) -> float | None:
        """Joules since the driver was loaded."""
        millijoules = self._ask(lambda: self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle))
        return None if millijoules is None else millijoules / 1000

    def processes(self) -> tuple[int, ...]:
        """Processes that compute on it; their ids are the host's, which in a container are not ours."""
        found = self._ask(lambda: self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle))
        return () if found is None else tuple(process.pid for process in found)

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except self.nvml.NVMLError:
            return None


def open_gpu(index: int = 0) -> Gpu | None:
    """The GPU that CUDA calls `index`; None without NVML or without that GPU. Stays open until the process ends."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handle = _find_handle(pynvml, index)
    except pynvml.NVMLError:
        return None
    return None if handle is None else Gpu(nvml=pynvml, handle=handle, began=time.perf_counter())


def _find_handle(nvml: ModuleType, index: int) -> Any | None:
    """By the entry of CUDA_VISIBLE_DEVICES, which may be a number or a UUID."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return nvml.nvmlDeviceGetHandleByIndex(index)
    entries = visible_entries(chosen)
    return find_gpu(nvml, entries[index]) if index < len(entries) else None
