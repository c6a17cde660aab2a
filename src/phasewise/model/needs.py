"""Which phases this machine can run."""

from __future__ import annotations

import importlib.util
import os

from phasewise.model.workload import Needs
from phasewise.records.machine import Machine

# device name of a machine on record, for which plans are made instead of this one
MACHINE = "PHASEWISE_MACHINE"
# what to import -> the package whose version every record of a machine tells, if it has it
RECORDED = {
    "torch": "torch",
    "triton": "triton",
    "numpy": "numpy",
    "cupy": "cupy-cuda13x",
    "jax": "jax",
    "onnxruntime": "onnxruntime",
    "torch_tb_profiler": "torch-tb-profiler",
}


def unmet(needs: Needs, machine: Machine) -> str | None:
    """The first need that `machine` does not meet, as a reason with its cure; None if all are met."""
    if needs.gpus > max(machine.gpus, 0):
        return f"needs {needs.gpus} GPUs, this machine has {machine.gpus}"
    if needs.memory_bytes > machine.memory_bytes:
        return f"needs {needs.memory_bytes / 1e9:.1f} GB of device memory, this machine has {machine.memory_bytes / 1e9:.1f} GB"
    return unmet_but_fallback(needs, machine)


def unmet_but_fallback(needs: Needs, machine: Machine) -> str | None:
    """An unmet need that a kernel's fallback can stand in for: the phase is validated here, and not timed."""
    if needs.cuda and machine.kind != "cuda":
        return "needs an NVIDIA GPU"
    if needs.capability is not None and (machine.capability or (0, 0)) < needs.capability:
        have = "none" if machine.capability is None else ".".join(map(str, machine.capability))
        return f"needs compute capability {'.'.join(map(str, needs.capability))}, this machine has {have}"
    for module in needs.modules:
        if not has_module(module, machine):
            return f"needs the package {module} (pip install {module})"
    return None


def has_module(module: str, machine: Machine) -> bool:
    """Whether `module` can be imported on `machine`: on this one Python is asked, of one on record its record.

    A record tells which of `RECORDED` there are. Any other module is taken to be there: a phase or a peer that then fails on
    that machine is seen, one that was left out is not.
    """
    if not os.environ.get(MACHINE):
        return importlib.util.find_spec(module) is not None
    return module not in RECORDED or RECORDED[module] in machine.versions
