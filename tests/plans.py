"""Plans for tests, made from a workload without planning a whole run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from phasewise.model.discover import load_workload
from phasewise.records.base import Scalar
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, PlannedCheck, VariantPlan

# the tier "moderate", with a bound on the baseline's own error that float32 sums keep
ALLOWANCE = Allowance(rtol=1e-4, atol=1e-5, times_baseline=64)
BUDGET = Budget(min_rounds=3, max_rounds=3, min_sets=1, max_sets=1, block_s=0.001, seconds=5.0, timeout_s=60.0)


def make_plan(
    source: str,
    root: Path,
    *,
    switches: Mapping[str, Scalar] | None = None,
    variant: str = "01-test",
    kind: Kind = Kind.PHASE,
    ancestors: tuple[str, ...] = ("00-baseline",),
    cases: tuple[str, ...] | None = None,
    steps: int | None = None,
    checks: tuple[str, ...] = (),
    **changes: Any,
) -> VariantPlan:
    """The plan of one variant of the workload at `source` below `root`, at `size` (default tiny) on `device` (default cpu).

    `switches` stand over the workload's defaults; `changes` are further fields of VariantPlan.
    """
    workload = load_workload(source, root)
    values = {**asdict(workload.switches()), **(switches or {})}
    size = changes.pop("size", "tiny")
    device = changes.pop("device", "cpu")
    lineage = () if kind is Kind.BASELINE else ancestors
    names = cases or tuple(name for name, case in workload.cases.items() if getattr(case, size) is not None)
    planned = []
    for name in names:
        case = workload.cases[name]
        planned.append(
            PlannedCase(
                case=name,
                shape=dict(getattr(case, size)),
                switches=values,
                parent=lineage[0] if lineage else None,
                ancestors=lineage,
                inputs=case.inputs,
                steps=case.steps if steps is None else steps,
                cache=case.cache,
                memory_limit_bytes=case.memory_limit_bytes.get(size),
                sample_items=case.sample_items if size == "full" else None,
            )
        )
    fields: dict[str, Any] = {
        "protocol": 1,
        "workload": "test",
        "source": source,
        "run": f"{size}-{device}",
        "size": size,
        "device": device,
        "variant": "00-baseline" if kind is Kind.BASELINE else variant,
        "kind": kind,
        "parent": lineage[0] if lineage else None,
        "ancestors": lineage,
        "switches": values,
        "cases": tuple(planned),
        "tier": "moderate",
        "allowance": ALLOWANCE,
        "budget": BUDGET,
        "checks": tuple(PlannedCheck(name=name, cases=names) for name in checks),
        "lock": "0" * 16,
        "sources": "0" * 16,
    }
    return VariantPlan(**{**fields, **changes})


def make_baseline(source: str, root: Path, **changes: Any) -> VariantPlan:
    """The plan of the workload's baseline."""
    return make_plan(source, root, kind=Kind.BASELINE, **changes)
