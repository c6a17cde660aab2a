"""All stages for one variant, quickly and outside the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from phasewise.cli.results import explain_doubts
from phasewise.jobs import Job
from phasewise.match.verdict import refuse_at_gate
from phasewise.model.layout import Layout
from phasewise.plan import PlannedRun
from phasewise.records.analyse import Analysis, VariantAnalysis
from phasewise.records.exit_code import ExitCode, choose_code, choose_worst
from phasewise.records.judgement import WRONG
from phasewise.records.machine import Machine
from phasewise.records.plan import Budget, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.records.validate import Validation
from phasewise.records.verdict import Status
from phasewise.run import Run
from phasewise.stages import ANALYSE, MEASURE, PROFILE, VALIDATE
from phasewise.store import read_if_there

# enough to see a tenth, not a hundredth
QUICK = Budget(min_rounds=6, max_rounds=6, min_sets=1, max_sets=1, seconds=30.0)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What a try found; not on record."""

    plan: VariantPlan
    validation: Validation
    analysis: Analysis
    findings: VariantAnalysis


def attempt(
    plan: VariantPlan,
    plans: Mapping[str, VariantPlan],
    planned: PlannedRun,
    machine: Machine,
    layout: Layout,
    scratch: Path,
) -> Tried:
    """Validate the ancestors and the variant, measure it beside its parent, profile and analyse it."""
    from phasewise.analyse import analyse_run
    from phasewise.prepare.apart import prepare_in_process

    run_plan = planned.run_plan
    known = read_if_there(layout.machine(machine.device), Machine) or machine
    prepared = read_if_there(layout.run(run_plan.workload, run_plan.run) / "prepare.json", Prepared)
    prepared = prepared or prepare_in_process(planned.prepare, None, layout)
    quick = (msgspec.structs.replace(other, budget=QUICK, profilers=("torch",)) for other in plans.values())
    run = Run(run_plan.workload, run_plan.run, [run_plan, known, prepared, *quick])
    jobs = [(VALIDATE, name) for name in reversed(plan.ancestors)]
    for stage, name in (*jobs, *((stage, plan.variant) for stage in (VALIDATE, MEASURE, PROFILE, ANALYSE))):
        run.add(stage.make(Job(stage=stage, run=run, subject=name, layout=layout, scratch=scratch)))
    analysis, _ = analyse_run(run)
    gate, findings = run.need(Validation, plan.variant), run.need(VariantAnalysis, plan.variant)
    return Tried(plan=plan, validation=gate, analysis=analysis, findings=findings)


def choose_exit(found: Tried) -> ExitCode:
    """Of the worst case: what its gate refused, else its verdict."""
    codes = []
    results = {case.case: case for case in found.analysis.cases}
    for gate in found.validation.cases:
        refused = refuse_at_gate(gate)
        if refused is not None:
            codes.append(choose_code(refused[0], is_wrong=refused[1] == WRONG))
        elif gate.case in results:
            rows = (row for row in results[gate.case].rows if row.variant == found.plan.variant)
            # a case that was not asked for says nothing
            told = (row.verdict.status for row in rows if row.verdict.status is not Status.SKIPPED)
            codes += [choose_code(status, is_wrong=False) for status in told]
    return choose_worst(codes) if codes else ExitCode.UNDECIDED


def describe_attempt(found: Tried) -> str:
    """The outcome as lines of text."""
    lines = []
    for gate in found.validation.cases:
        lines.append(
            f"{found.plan.variant} {gate.case}: gate {gate.outcome}{': ' + gate.message if gate.message else ''}"
        )
    for case in found.analysis.cases:
        for row in case.rows:
            if row.variant != found.plan.variant:
                continue
            ratio = row.verdict.over_parent
            speed = (
                f"{ratio.estimate:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}] over {row.parent}" if ratio else "no ratio"
            )
            time = f"{row.time_s.estimate:.3g} s a step, " if row.time_s else ""
            lines.append(f"{row.variant} {case.case}: {row.verdict.status} ({row.verdict.reason}), {time}{speed}")
    rows = (row for case in found.analysis.cases for row in case.rows)
    lines += explain_doubts(row.verdict for row in rows if row.variant == found.plan.variant)
    for findings in found.findings.cases:
        for finding in findings.findings:
            if finding.outcome == "found":
                lines.append(
                    f"{findings.case}: {finding.finding} holds {finding.share:.0%} of the step: {finding.advice}"
                )
    return "\n".join(lines)
