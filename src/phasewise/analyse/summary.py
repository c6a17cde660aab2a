"""`summary.json`: the stable interface of a run. Fields are added, never renamed; `summary.schema.json` describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from phasewise.records.analyse import Analysis, CaseResult, Control, PartResult, PeerRow, RiskResult, Row, TargetResult
from phasewise.records.base import Interval
from phasewise.records.cost import StageCost
from phasewise.records.export import Export
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind, RunPlan
from phasewise.records.predict import Prediction

VERSION = 1


def summarise(analysis: Analysis, run_plan: RunPlan, machine: Machine, exports: Mapping[str, Export]) -> bytes:
    """The file's content: `make_summary` as indented JSON."""
    plain = make_summary(analysis, run_plan, machine, exports)
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def make_summary(
    analysis: Analysis, run_plan: RunPlan, machine: Machine, exports: Mapping[str, Export]
) -> dict[str, Any]:
    """The headline case at the top level, all cases in `cases`; times are seconds a step of `items` items."""
    cases = [_case(case, run_plan.tier) for case in analysis.cases]
    return {
        "schema": VERSION,
        "workload": analysis.workload,
        "run": analysis.run,
        "device": run_plan.device,
        "environment": _environment(analysis, machine),
        **cases[0],
        "targets": [_target(target) for target in analysis.targets],
        "risks": [_risk(risk) for risk in analysis.risks],
        "costs": [_cost(cost) for cost in analysis.costs],
        "alarms": list(analysis.alarms),
        "exports": [row for record in exports.values() for row in _exports(record)],
        "cases": cases,
    }


def _cost(cost: StageCost) -> dict[str, Any]:
    return {"stage": cost.stage, "cases": cost.cases, "seconds": cost.seconds, "alone": cost.alone}


def _environment(analysis: Analysis, machine: Machine) -> dict[str, Any]:
    return {
        "kind": machine.kind,
        "name": machine.name,
        "gpus": machine.gpus,
        "capability": list(machine.capability) if machine.capability else None,
        "memory_bytes": machine.memory_bytes,
        "driver": machine.driver,
        "cuda": machine.cuda,
        "power_limit_w": machine.power_limit_w,
        "cores": machine.cores,
        "python": machine.python,
        "versions": dict(sorted(machine.versions.items())),
        "machines": list(analysis.machines),
        "commits": list(analysis.commits),
    }


def _case(case: CaseResult, tier: str) -> dict[str, Any]:
    baseline = next((row for row in case.rows if row.kind is Kind.BASELINE), None)
    return {
        "case": case.case,
        "items": case.items,
        "item": case.item,
        "floor_s": case.floor_s,
        "floor_kind": case.floor_kind,
        "baseline": _baseline(baseline) if baseline is not None else None,
        "phases": [_phase(row, tier) for row in case.rows if row.kind is Kind.PHASE],
        "ablations": [_phase(row, tier) for row in case.rows if row.kind in (Kind.WITHOUT, Kind.ONLY)],
        "stack": _stack(case),
        "parts": [_part(part) for part in case.parts],
        "aa": _control(case.control),
        "aa_baseline": _control(case.baseline_control),
        "peers": [_peer(peer) for peer in case.peers],
    }


def _baseline(row: Row) -> dict[str, Any]:
    return {
        "variant": row.variant,
        **_time(row.time_s),
        "items_per_s": row.items_per_s,
        "status": row.verdict.status.value,
        "validation": row.validation.value,
        "peak_memory_bytes": row.peak_memory_bytes,
        "energy_j_per_item": row.energy_j_per_item,
        "first_step_s": row.first_step_s,
        "floor_fraction": row.floor_fraction,
    }


def _phase(row: Row, tier: str) -> dict[str, Any]:
    return {
        "variant": row.variant,
        "phase": row.phase,
        "part": row.part,
        "parent": row.parent,
        "kept": row.kept,
        "switches": row.switches,
        "status": row.verdict.status.value,
        "reason": row.verdict.reason.value,
        "detail": row.verdict.detail,
        "speedup_previous": _interval(row.verdict.over_parent),
        "speedup_baseline": _interval(row.verdict.over_baseline),
        **_time(row.time_s),
        "items_per_s": row.items_per_s,
        "chained": row.verdict.chained,
        "level": row.level.value,
        "documented": _pair(row.documented),
        "expected": _pair(row.expected),
        "predicted": _predicted(row.predicted),
        "validation": row.validation.value,
        "max_error": row.max_error,
        "tier": tier,
        "peak_memory_bytes": row.peak_memory_bytes,
        "energy_j_per_item": row.energy_j_per_item,
        "first_step_s": row.first_step_s,
        "pays_after_steps": row.pays_after_steps,
        "floor_fraction": row.floor_fraction,
        "busy_s": row.busy_s,
        "host_bound": row.host_bound,
        "risks": [_risk(risk) for risk in row.risks],
    }


def _predicted(predicted: Prediction | None) -> dict[str, float | str | None] | None:
    """None where the rule predicts nothing."""
    if predicted is None or predicted.low is None:
        return None
    return {"low": predicted.low, "high": predicted.high, "level": predicted.level, "basis": predicted.basis}


def _stack(case: CaseResult) -> dict[str, Any]:
    return {
        "variant": case.stack,
        "speedup": _interval(case.stack_speedup),
        "chained": case.stack_chained,
        "at_least": case.stack_at_least,
        "strongest_peer": case.strongest_peer,
        "status": case.stack_status.value if case.stack_status is not None else None,
        "reason": case.stack_reason.value,
        "level": case.stack_level.value,
    }


def _part(part: PartResult) -> dict[str, Any]:
    return {
        "part": part.part,
        "variant": part.variant,
        "speedup": _interval(part.speedup),
        "chained": part.chained,
        "status": part.status.value if part.status is not None else None,
        "level": part.level.value,
    }


def _target(target: TargetResult) -> dict[str, Any]:
    return {
        "name": target.name,
        "metric": target.metric,
        "unit": target.unit,
        "case": target.case,
        "against": target.against,
        "part": target.part,
        "phase": target.phase,
        "value": target.value,
        "low": target.low,
        "high": target.high,
        "minimum": target.minimum,
        "target": target.target,
        "stretch": target.stretch,
        "level": target.level.value,
        "reason": target.reason,
    }


def _peer(peer: PeerRow) -> dict[str, Any]:
    return {
        "name": peer.name,
        "version": peer.version,
        "variant": peer.variant,
        "status": peer.verdict.status.value,
        "reason": peer.verdict.reason.value,
        "validation": peer.validation.value,
        **_time(peer.time_s),
        "ratio": _interval(peer.ratio),
        "same_output": peer.same_output,
    }


def _exports(record: Export) -> list[dict[str, Any]]:
    return [
        {
            "variant": record.variant,
            "case": result.case,
            "target": result.format,
            "status": result.status.value,
            "reason": result.reason,
        }
        for result in record.results
    ]


def _control(control: Control | None) -> dict[str, Any] | None:
    if control is None:
        return None
    return {
        "variant": control.variant,
        "floor": control.floor,
        "covers_zero": control.covers_zero,
        "ratio": _interval(control.ratio),
        "status": control.status,
    }


def _risk(risk: RiskResult) -> dict[str, Any]:
    return {"title": risk.title, "outcome": risk.outcome, "evidence": risk.evidence}


def _time(time: Interval | None) -> dict[str, float | None]:
    if time is None:
        return {"time_s": None, "low_s": None, "high_s": None}
    return {"time_s": time.estimate, "low_s": time.low, "high_s": time.high}


def _interval(interval: Interval | None) -> dict[str, float] | None:
    if interval is None:
        return None
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def _pair(pair: tuple[float, float] | None) -> dict[str, float] | None:
    return {"low": pair[0], "high": pair[1]} if pair is not None else None
