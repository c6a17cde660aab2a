"""Synthetic profiles with one known trouble each."""

from __future__ import annotations

from typing import Any

import msgspec
from synthetic_run import CPU, GPU

from phasewise.analyse.diagnose import diagnose, split_step
from phasewise.analyse.evidence import Evidence
from phasewise.analyse.floor import find_floor
from phasewise.records.analyse import Finding
from phasewise.records.machine import Machine
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import Breakdown, CaseProfile, Count, Kernel, Operator

GEMM = Kernel(name="sgemm", calls=4, seconds=4e-3, category="gemm", dtype="float32", grid=(264,), tensor_core=True)
OTHER = Kernel(name="sort", calls=1, seconds=5e-3, category="other", grid=(264,), occupancy=0.5)
QUIET = Breakdown(wall_s=10e-3, kernel_s=9.5e-3, launch_gap_s=0.3e-3, host_s=0.2e-3)
OPERATORS = (
    Operator(name="aten::addmm", calls=4, self_s=2e-3, device_s=4e-3, shapes="[[64, 64], [64, 64]]", flops=1e9),
    Operator(name="aten::sort", calls=1, self_s=1e-3, device_s=5e-3),
)
WORK = CaseWork(case="main", items=1000.0, flops=4e9, bytes=1e9, working_set_bytes=1e9)


def profile(**changes: Any) -> CaseProfile:
    """A step of 10 ms without trouble: kernels fill it."""
    quiet = CaseProfile(
        case="main", steps=5, breakdown=QUIET, kernels=(GEMM, OTHER), operators=OPERATORS, count=Count(launches=5)
    )
    return msgspec.structs.replace(quiet, **changes)


def evidence(
    found: CaseProfile | None,
    machine: Machine = GPU,
    work: CaseWork | None = WORK,
    step_s: float | None = None,
    **more: Any,
) -> Evidence:
    """The evidence of one variant in one case."""
    return Evidence(
        profile=found,
        machine=machine,
        work=work,
        floor=find_floor(work, machine),
        step_s=step_s,
        pools=split_step(found, step_s, cuda=machine.kind == "cuda"),
        **more,
    )


def judge(name: str, found: CaseProfile | None, machine: Machine = GPU, **more: Any) -> Finding:
    """One finding on this profile."""
    return {finding.finding: finding for finding in diagnose(evidence(found, machine, **more))}[name]


__all__ = ["CPU", "GEMM", "GPU", "OPERATORS", "OTHER", "QUIET", "WORK", "evidence", "judge", "profile"]
