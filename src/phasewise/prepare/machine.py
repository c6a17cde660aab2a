"""The machine record: what was detected, with the peaks that were measured."""

from __future__ import annotations

import msgspec
import torch

from phasewise.prepare.peaks import cache_bytes, measure_peaks
from phasewise.records.machine import Machine


def prepare_machine(detected: Machine) -> Machine:
    """`detected` with measured peaks and what only torch knows."""
    device = torch.device("cuda" if detected.kind == "cuda" else "cpu")
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 0
    return msgspec.structs.replace(
        detected, peaks=measure_peaks(device), cache_bytes=cache_bytes(device), multiprocessors=multiprocessors
    )
