"""The synthetic run with less in it: fewer variants, or nothing that is optional."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from phasewise.records.analyse import Analysis, CaseResult, Row
from phasewise.records.validate import Validation
from phasewise.records.verdict import Level, Verdict
from phasewise.report.load import RunRecords
from report.make import CASES, RUN, WORKLOAD, make_records


def make_small_records() -> RunRecords:
    """The first three variants in the headline case: enough for what is about files and not about content."""
    records = make_records()
    plan, analysis = records.plan, records.analysis
    assert plan is not None and analysis is not None
    case = msgspec.structs.replace(analysis.cases[0], rows=analysis.cases[0].rows[:3], stack="02-fused-message")
    return replace(
        records,
        plan=msgspec.structs.replace(plan, cases=CASES[:1], phases=plan.phases[:2], variants=plan.variants[:3]),
        analysis=msgspec.structs.replace(analysis, cases=(case,)),
        variants={
            name: replace(held, validation=None if held.validation is None else _first_case(held.validation))
            for name, held in list(records.variants.items())[:3]
        },
    )


def _first_case(validation: Validation) -> Validation:
    return msgspec.structs.replace(validation, cases=validation.cases[:1])


def stripped(records: RunRecords) -> RunRecords:
    """The same run with every optional field empty."""
    rows = tuple(
        Row(
            variant=row.variant, kind=row.kind, phase=row.phase, part=row.part, parent=row.parent, kept=row.kept, switches={}, sets={},
            verdict=Verdict(status=row.verdict.status),
        )
        for row in records.cases[0].rows
    )  # fmt: skip
    case = CaseResult(
        case=CASES[0], items=1.0, item="items", floor_s=None, floor_kind="", rows=rows, stack=None, stack_speedup=None,
        stack_level=Level.NONE, control=None,
    )  # fmt: skip
    analysis = Analysis(workload=WORKLOAD, run=RUN, commits=(), machines=(), cases=(case,))
    plan = (
        msgspec.structs.replace(records.plan, targets=(), risks=(), considered=(), parts=(), cases=(CASES[0],))
        if records.plan
        else None
    )
    return RunRecords(workload=WORKLOAD, run=RUN, plan=plan, analysis=analysis)
