"""The rows of the tables: one variant in one case, and peers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phasewise.analyse.compare import Estimates, Key, to_interval
from phasewise.analyse.floor import floor_fraction, step_floor
from phasewise.analyse.gate import TOLD
from phasewise.analyse.measures import (
    busy_time,
    energy_per_item,
    is_host_bound,
    step_time,
    steps_to_pay,
    worst_error,
)
from phasewise.analyse.risks import settle_risks
from phasewise.analyse.samples import range_over_sets
from phasewise.model.arms import cold_start
from phasewise.model.ratios import dropped_share, kept_rounds
from phasewise.records.analyse import PeerRow, Row, TargetResult
from phasewise.records.base import Interval, Scalar
from phasewise.records.plan import PlannedVariant
from phasewise.records.predict import Prediction
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level, Verdict
from phasewise.run import Run
from phasewise.stats import p50, p99


@dataclass(frozen=True, kw_only=True)
class Told:
    """What rows are made from."""

    run: Run
    estimates: Estimates
    verdicts: Mapping[Key, Verdict]
    # those of rules
    predictions: Mapping[Key, Prediction]
    # by (case, phase)
    levels: Mapping[tuple[str, str], Level]
    targets: Sequence[TargetResult]


def make_row(told: Told, row: PlannedVariant, case: str) -> Row:
    """One variant in one case."""
    run, key = told.run, (case, row.variant)
    verdict = told.verdicts[key]
    phase = run.phases.get(row.variant)
    gate, measured, arm = run[row.variant].gate(case), run[row.variant].measured(case), None
    planned = run[row.variant].planned(case)
    if verdict.status in TOLD and run[row.variant].is_here:
        arm = run[row.variant].arm(case)
    step = step_time(told.estimates, key) if verdict.status in TOLD else None
    floor = step_floor(run, row.variant, case)
    energy = energy_per_item(arm)
    worst, relative = worst_error(gate)
    parent = _parent(told, row.variant, case)
    items = arm.items if arm is not None else _items(run, case)
    samples = [seconds for seconds in arm.step_s if seconds > 0.0] if arm is not None else []
    ratio = told.estimates.comparisons.get(key)
    busy = busy_time(run[row.variant].profiled(case)) if run.machine.kind == "cuda" and step is not None else None
    return Row(
        variant=row.variant,
        kind=row.kind,
        phase=row.phase,
        part=phase.part if phase is not None else None,
        parent=parent,
        kept=row.kept,
        switches=planned.switches if planned is not None else run.plan.switches_of(row.variant),
        sets=_sets(run, row, parent, case),
        verdict=verdict,
        time_s=step,
        p50_s=p50(samples) if samples else None,
        p99_s=p99(samples) if samples else None,
        busy_s=busy,
        host_bound=is_host_bound(busy, step),
        range_s=range_over_sets(measured, "variant") if measured is not None and arm is not None else None,
        items_per_s=items / step.estimate if step is not None and items is not None else None,
        level=told.levels.get((case, row.phase), Level.NONE) if row.phase is not None else Level.NONE,
        documented=phase.documented if phase is not None else None,
        expected=phase.expect if phase is not None else None,
        predicted=told.predictions.get(key),
        validation=gate.outcome if gate is not None else Outcome.SKIPPED,
        validation_message=gate.message if gate is not None else "",
        worst=worst,
        max_error=relative,
        peak_memory_bytes=arm.peak_memory_bytes if arm is not None else None,
        energy_j_per_item=energy.estimate if energy is not None else None,
        first_step_s=cold_start(arm),
        pays_after_steps=_pays(told, row.variant, parent, case, step),
        floor_fraction=floor_fraction(floor, step.estimate) if floor is not None and step is not None else None,
        risks=settle_risks(phase.risks, [gate], told.targets) if phase is not None and case in phase.cases else (),
        rounds=ratio.rounds if ratio is not None else len(kept_rounds(measured)) if measured is not None else 0,
        sets_of_processes=len({taken.process_set for taken in measured.rounds}) if measured is not None else 0,
        dropped_rounds=round(dropped_share(measured) * len(measured.rounds)) if measured is not None else 0,
    )


def make_peer_row(told: Told, row: PlannedVariant, case: str) -> PeerRow:
    """A peer: its ratio is its own time per item over that of our variant beside it."""
    run, key = told.run, (case, row.variant)
    verdict = told.verdicts[key]
    gate = run[row.variant].gate(case)
    arm = run[row.variant].arm(case)
    is_told = verdict.status in TOLD
    ratio = told.estimates.comparisons.get(key)
    inverse = to_interval(ratio.ratio) if ratio is not None and is_told else None
    return PeerRow(
        name=row.variant.removeprefix("peer-"),
        version=arm.version if arm is not None else "",
        variant=_parent(told, row.variant, case) or "",
        verdict=verdict,
        validation=gate.outcome if gate is not None else Outcome.SKIPPED,
        validation_message=gate.message if gate is not None else "",
        time_s=step_time(told.estimates, key) if is_told else None,
        ratio=Interval(estimate=1 / inverse.estimate, low=1 / inverse.high, high=1 / inverse.low) if inverse else None,
        same_output=not row.different,
        different=row.different,
    )


def _parent(told: Told, variant: str, case: str) -> str | None:
    """What it was really compared with; what the plan says where it was not."""
    found = told.estimates.comparisons.get((case, variant))
    return found.against if found is not None else told.run[variant].parent(case)


def _sets(run: Run, row: PlannedVariant, parent: str | None, case: str) -> dict[str, Scalar]:
    """Switches that differ from the parent's in this case."""
    planned, below = run[row.variant].planned(case), run[parent].planned(case) if parent else None
    if planned is None or below is None or not planned.switches or not below.switches:
        return row.sets
    return {name: value for name, value in planned.switches.items() if below.switches.get(name) != value}


def _items(run: Run, case: str) -> float | None:
    work = run.work(case)
    return work.items if work is not None else None


def _pays(told: Told, variant: str, parent: str | None, case: str, step: Interval | None) -> float | None:
    if parent is None:
        return None
    cold = cold_start(told.run[variant].arm(case))
    start = cold_start(told.run[parent].arm(case))
    return steps_to_pay(cold, start, step, step_time(told.estimates, (case, parent)))
