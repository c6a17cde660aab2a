"""Machines, and the plans of synthetic runs."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise.records.machine import Machine, Peaks
from phasewise.records.measure import Window
from phasewise.records.plan import (
    Allowance,
    Budget,
    Kind,
    PlannedCase,
    PlannedPhase,
    PlannedRisk,
    PlannedVariant,
    RunPlan,
    VariantPlan,
)
from phasewise.records.validate import CheckResult, Outcome
from phasewise.records.verdict import Failure

BASELINE = "00-baseline"
BUDGET = Budget(min_rounds=12, max_rounds=12, min_sets=3, max_sets=3)
GPU = Machine(
    device="h200",
    kind="cuda",
    name="NVIDIA H200",
    gpus=1,
    capability=(9, 0),
    memory_bytes=140 << 30,
    cache_bytes=60 << 20,
    multiprocessors=132,
    driver="580",
    cuda="13.0",
    power_limit_w=700.0,
    cores=16,
    python="3.12",
    versions={"torch": "2.11"},
    peaks=Peaks(
        copy_bytes_per_s=4e12,
        cached_copy_bytes_per_s=8e12,
        matmul_flops_per_s={"float32": 50e12, "tf32": 350e12, "bfloat16": 700e12},
        launch_s=4e-6,
        graph_node_s=1.3e-6,
        sync_s=10e-6,
    ),
)
CPU = Machine(
    device="cpu",
    kind="cpu",
    name="a processor",
    cores=2,
    python="3.11",
    peaks=Peaks(copy_bytes_per_s=1e10, matmul_flops_per_s={"float32": 1e11}),
)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One phase of a synthetic run; `speedup` is the truth over its parent."""

    name: str
    speedup: float = 1.0
    parent: str | None = None
    keep: bool = True
    must: str | None = None
    because: str = "launch-gaps"
    is_idea: bool = False
    expect: tuple[float, float] | None = None
    part: str | None = None
    stays: str = ""
    risks: tuple[PlannedRisk, ...] = ()
    skip: str | None = None
    untimed: str | None = None
    outcome: Outcome = Outcome.PASS
    message: str = ""
    checks: tuple[CheckResult, ...] = ()
    gate_failure: Failure | None = None
    failure: Failure | None = None
    parent_failure: Failure | None = None
    skipped: Failure | None = None
    outputs_held: bool | None = True
    ranks: int = 1
    items: float = 1000.0
    energy: tuple[Window, ...] = ()
    peak_memory_bytes: int | None = 1 << 30
    machine: str | None = None
    has_measurement: bool = True
    has_validation: bool = True
    has_parent_arm: bool = True
    # rounds as they are taken: spread, what happened to them
    noise: float = 0.003
    dropped: float = 0.0
    neighbours: int = 0
    bimodal: float = 0.0
    clock_gain: float = 1.0
    has_clocks: bool = False
    sets: int = 3
    process: float = 0.001
    cases: tuple[str, ...] = ("main",)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another package; `slower` is its time per item over that of the stack's end."""

    name: str
    slower: float = 2.0


def make_row(
    name: str, kind: Kind, phase: str | None, parent: str | None, ancestors: tuple[str, ...], made: Phase
) -> PlannedVariant:
    return PlannedVariant(
        variant=name,
        kind=kind,
        phase=phase,
        parent=parent,
        ancestors=ancestors,
        kept=made.keep and made.must is None,
        switches={made.name: True},
        sets={made.name: True},
        skip=made.skip,
        untimed=made.untimed,
        cases=made.cases,
    )


def plan_phase(name: str, phase: Phase) -> PlannedPhase:
    return PlannedPhase(
        phase=phase.name,
        variant=name,
        part=phase.part,
        because=phase.because,
        because_is_idea=phase.is_idea,
        expect=phase.expect,
        documented=None,
        method="",
        kept=phase.keep and phase.must is None,
        must=phase.must,
        cases=phase.cases,
        risks=phase.risks,
        stays=phase.stays,
    )


def make_plan(row: PlannedVariant, run_plan: RunPlan) -> VariantPlan:
    return VariantPlan(
        protocol=1,
        workload="toy",
        source="toy.py",
        run=run_plan.run,
        size="full",
        device=run_plan.device,
        variant=row.variant,
        kind=row.kind,
        phase=row.phase,
        parent=row.parent,
        ancestors=row.ancestors,
        kept=row.kept,
        switches=row.switches,
        skip=row.skip,
        untimed=row.untimed,
        cases=tuple(
            PlannedCase(case=case, shape={"n": 1000}, parent=row.parent, ancestors=row.ancestors) for case in row.cases
        ),
        tier="moderate",
        allowance=Allowance(rtol=1e-4, atol=1e-5),
        budget=BUDGET,
        lock="0",
        sources="0",
    )
