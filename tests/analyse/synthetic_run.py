"""Synthetic runs with known truth: plans, gates and measurements whose ratios are given."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace
from synthetic_plan import BASELINE, CPU, GPU, Peer, Phase, make_plan, make_row, plan_phase
from synthetic_records import record_baseline, record_control, record_peer, record_phase, rounds_of

from phasewise import run
from phasewise.analyse import analyse_run
from phasewise.records.analyse import Analysis, Row, VariantAnalysis
from phasewise.records.base import find_case
from phasewise.records.ledger import Ledger
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement, ScalePoint
from phasewise.records.plan import (
    Kind,
    PlannedRisk,
    PlannedTarget,
    RunPlan,
    VariantPlan,
)
from phasewise.records.predict import Predicted, Prediction
from phasewise.records.prepare import CaseWork, Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.records.verdict import Verdict


@dataclass(kw_only=True)
class Run:
    """A synthetic run, ready to be analysed."""

    run_plan: RunPlan
    plans: dict[str, VariantPlan] = field(default_factory=dict)
    machine: Machine = GPU
    prepared: Prepared | None = None
    validations: dict[str, Validation] = field(default_factory=dict)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    analyses: dict[str, VariantAnalysis] = field(default_factory=dict)
    predicted: dict[str, Predicted] = field(default_factory=dict)

    def analyse(self) -> tuple[Analysis, Ledger]:
        return analyse_run(self.records())

    def records(self) -> run.Run:
        """The records in memory."""
        of_variants = (self.plans, self.validations, self.measurements, self.profiles, self.analyses, self.predicted)
        shared = [self.run_plan, self.machine, *([self.prepared] if self.prepared else [])]
        found = run.Run(self.run_plan.workload, self.run_plan.run, shared)
        for records in of_variants:
            for variant, record in records.items():
                found.add(record, variant)
        return found

    def rows(self, case: str = "main") -> dict[str, Row]:
        analysis, _ = self.analyse()
        result = find_case(analysis, case)
        assert result is not None
        return {row.phase or row.variant: row for row in result.rows}

    def verdict(self, phase: str, case: str = "main") -> Verdict:
        return self.rows(case)[phase].verdict


def make_run(
    *phases: Phase,
    machine: Machine = GPU,
    cases: tuple[str, ...] = ("main",),
    targets: tuple[PlannedTarget, ...] = (),
    parts: tuple[str, ...] = (),
    risks: tuple[PlannedRisk, ...] = (),
    peers: tuple[Peer, ...] = (),
    work: CaseWork | None = None,
    slow_baseline: bool = False,
    scale: tuple[ScalePoint, ...] = (),
    baseline: Phase | None = None,
    aa: float = 1.0,
    has_control: bool = True,
    step_s: float = 1e-3,
    seed: int = 0,
) -> Run:
    """A run whose baseline takes `step_s` for 1000 items; `slow_baseline` is measured beside the first phase only."""
    rng = np.random.default_rng(seed)
    first = baseline or Phase(name="baseline")
    rows, planned, stories = [make_row(BASELINE, Kind.BASELINE, None, None, (), first)], {}, []
    truth, tops = {BASELINE: step_s}, BASELINE
    chain = {BASELINE: ()}
    names = {}
    for number, phase in enumerate(phases, start=1):
        name = f"{number:02d}-{phase.name}"
        names[phase.name] = name
        parent = names.get(phase.parent or "", phase.parent or tops)
        chain[name] = (parent, *chain[parent])
        truth[name] = truth[parent] / phase.speedup * (phase.items / 1000.0)
        rows.append(make_row(name, Kind.PHASE, phase.name, parent, chain[name], phase))
        stories.append(plan_phase(name, phase))
        planned[name] = phase
        if phase.keep and phase.must is None and phase.skip is None and phase.untimed is None:
            tops = name
    controls = {"aa": tops, **({"aa-baseline": BASELINE} if tops != BASELINE else {})} if has_control else {}
    for name, of in controls.items():
        rows.append(make_row(name, Kind.CONTROL, None, of, (of, *chain[of]), Phase(name=name, keep=False)))
    for peer in peers:
        rows.append(
            make_row(
                f"peer-{peer.name}", Kind.PEER, None, tops, (tops, *chain[tops]), Phase(name=peer.name, keep=False)
            )
        )
    run_plan = RunPlan(
        workload="toy",
        source="toy.py",
        run="full-h200",
        size="full",
        device=machine.device,
        summary="a toy",
        tier="moderate",
        cases=cases,
        parts=parts,
        phases=tuple(stories),
        variants=tuple(rows),
        stack=dict.fromkeys(cases, tops),
        targets=targets,
        risks=risks,
    )
    declared = work or CaseWork(case="main", items=1000.0, flops=1e6, bytes=1e6, working_set_bytes=1e9)
    run = Run(
        run_plan=run_plan,
        machine=machine,
        prepared=Prepared(workload="toy", run="full-h200", folder="data/toy", work=(declared,)),
    )
    identity = machine.identity
    for row in rows:
        run.plans[row.variant] = make_plan(row, run_plan)
    record_baseline(run, rng, first, step_s, slow=slow_baseline, scale=scale, identity=identity)
    for number, (name, phase) in enumerate(planned.items()):
        record_phase(run, rng, name, phase, truth, chain[name], with_baseline=not slow_baseline or number == 0)
    for name, of in controls.items():
        record_control(run, rng, name, of, truth[of], aa, identity)
    for peer in peers:
        record_peer(run, rng, peer, tops, truth[tops], identity)
    return run


def cut_controls(run: Run, sets: int) -> Run:
    """The run with so many sets of each control."""
    for name in ("aa", "aa-baseline"):
        (case,) = run.measurements[name].cases
        rounds = tuple(taken for taken in case.rounds if taken.process_set < sets)
        fewer = replace(case, rounds=rounds)
        run.measurements[name] = replace(run.measurements[name], cases=(fewer,))
    return run


def predict(
    phase: str, variant: str, parent: str, low: float, high: float, finding: str = "launch-gaps"
) -> VariantAnalysis:
    """The analysis of a parent that holds one prediction."""
    prediction = Prediction(
        phase=phase,
        case="main",
        variant=variant,
        parent=parent,
        low=low,
        high=high,
        basis="critical-path",
        finding=finding,
    )
    return VariantAnalysis(workload="toy", run="full-h200", variant=parent, cases=(), predictions=(prediction,))


__all__ = ["BASELINE", "CPU", "GPU", "Peer", "Phase", "Run", "cut_controls", "make_run", "predict", "rounds_of"]


def points(small: float, large: float, operators: tuple[int, int] = (0, 0)) -> tuple[ScalePoint, ...]:
    """Seconds an item at 100 and at 200 items, with 1 % of noise; `operators` of a step at either, four elements each."""
    wobble = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005)
    return tuple(
        ScalePoint(
            shape={"n": n},
            items=float(n),
            wall_s=tuple(n * per_item * w for w in wobble),
            operators=count,
            elements=4 * count,
        )
        for n, per_item, count in ((200, large, operators[1]), (100, small, operators[0]))
    )
