"""The synthetic run with less in it: fewer variants, or nothing that is optional."""

from __future__ import annotations

import msgspec

from phasewise.records.analyse import Analysis, CaseResult, Row
from phasewise.records.validate import Validation
from phasewise.records.verdict import Level, Verdict
from phasewise.run import Run
from report.make import CASES, RUN, WORKLOAD, make_records


def make_small_records() -> Run:
    """The first three variants in the headline case: enough for what is about files and not about content."""
    run = make_records()
    assert run.analysis is not None
    case = msgspec.structs.replace(run.analysis.cases[0], rows=run.analysis.cases[0].rows[:3], stack="02-fused-message")
    plan = msgspec.structs.replace(
        run.plan,
        cases=CASES[:1],
        phases=run.plan.phases[:2],
        variants=run.plan.variants[:3],
        stack={CASES[0]: "02-fused-message"},
    )
    names = [row.variant for row in plan.variants]
    kept = [one for one in run.known if getattr(one, "variant", names[0]) in names]
    gates = [_first_case(run.need(Validation, name)) for name in names]
    analysis = msgspec.structs.replace(run.analysis, cases=(case,))
    return Run(WORKLOAD, RUN, [*kept, plan, analysis, *gates])


def _first_case(validation: Validation) -> Validation:
    return msgspec.structs.replace(validation, cases=validation.cases[:1])


def stripped(run: Run) -> Run:
    """The same run with every optional field empty."""
    rows = tuple(
        Row(
            variant=row.variant, kind=row.kind, phase=row.phase, part=row.part, parent=row.parent, kept=row.kept, switches={}, sets={},
            verdict=Verdict(status=row.verdict.status),
        )
        for row in run.results[0].rows
    )  # fmt: skip
    case = CaseResult(
        case=CASES[0], items=1.0, item="items", floor_s=None, floor_kind="", rows=rows, stack=None, stack_speedup=None,
        stack_level=Level.NONE, control=None,
    )  # fmt: skip
    analysis = Analysis(workload=WORKLOAD, run=RUN, commits=(), machines=(), cases=(case,))
    plan = msgspec.structs.replace(run.plan, targets=(), risks=(), considered=(), parts=(), cases=(CASES[0],))
    return Run(WORKLOAD, RUN, [plan, analysis])
