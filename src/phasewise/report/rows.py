"""Rows of what was judged, and the machine that it was judged on."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult, Row
from phasewise.records.machine import Machine
from phasewise.records.plan import Kind
from phasewise.run import Run


def find_machine(run: Run) -> Machine | None:
    """The machine that the run was judged on; else that of its device, as it is on record now."""
    return (run.analysis.machine if run.analysis is not None else None) or run.find(Machine)


def row_of(case: CaseResult, variant: str | None) -> Row | None:
    """The row of `variant` in `case`."""
    return next((row for row in case.rows if row.variant == variant), None)


def kept_rows(case: CaseResult) -> tuple[Row, ...]:
    """The baseline and the kept phases, as they stack."""
    return tuple(row for row in case.rows if row.kind == Kind.BASELINE or (row.kind == Kind.PHASE and row.kept))
