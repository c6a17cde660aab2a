"""A stage of the flow and a job of it: what makes a record, from what, under which lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from phasewise.environment import commit
from phasewise.model.discover import name_source
from phasewise.model.freshness import Closure, find_closure
from phasewise.model.layout import Layout
from phasewise.records.base import Record
from phasewise.records.machine import Machine
from phasewise.records.plan import CapturePlan, VariantPlan
from phasewise.records.prepare import Prepared
from phasewise.run import Run

R = TypeVar("R", bound=Record)
# a record, and of what: a variant, a case, "" for the run
Need = tuple[type[Record], str]
# what a job that runs the workload needs of the run
OF_RUN: tuple[Need, ...] = ((Prepared, ""), (Machine, ""))


# a job may take so many times as long as its like
MARGIN = 2.0


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How the records of one kind are made, and from what; `subject` is the variant or the case, "" for the run."""

    # the folder, the subcommand, the rule file
    name: str
    about: str
    record: type[Record]
    # what there is one record each of
    of: Literal["run", "case", "variant"] = "variant"
    # whether this variant, by its full plan, or this case gets such a record
    applies: Callable[[Run, str], bool] = lambda run, subject: True
    # records that a job reads, apart from plans of others: it runs again when one of them changes
    needs: Callable[[Run, str], Iterable[Need]]
    # others that have to be there before it; while its own record is of today's plan, their age tells nothing
    after: Callable[[Run, str], Iterable[Need]] = lambda run, subject: ()
    # "none": runs no program of the workload; "shared": `make` keeps measurements off the machine while it needs to;
    # "alone": has the machine to itself
    lock: Literal["none", "shared", "alone"] = "none"
    # that a job may take, for `--budget`, where no such job is on record; None is not worth a word
    guess: Callable[[Run, str], float] | None = None
    # what a record says that its cases took; none of them said it in older records
    took: Callable[[Any], Sequence[float]] = lambda record: ()
    make: Callable[[Job], Record]

    def inputs(self, run: Run, subject: str) -> list[Need]:
        """All records that a job reads or waits for."""
        return [*self.needs(run, subject), *self.after(run, subject)]

    def expect_seconds(self, run: Run, subject: str, cases: int) -> float | None:
        """What a job of so many cases may take: by its own earlier record, else by those of its like in this run, else by the guess."""
        if self.guess is None:
            return None
        subjects = run.plan.cases if self.of == "case" else tuple(run.rows)
        records = run.find_all(self.record, subjects)
        known = [records[subject]] if subject in records else list(records.values())
        took = [seconds for record in known for seconds in self.took(record) if seconds > 0.0]
        return MARGIN * cases * median(took) if took else self.guess(run, subject)

    def plan_of(self, run: Run, variant: str) -> VariantPlan:
        """What a record of the variant is made from: its plan, with what is captured of it where the stage needs that."""
        captures = (CapturePlan, variant) in self.needs(run, variant)
        return run[variant].full_plan if captures else run.need(VariantPlan, variant)

    def plans_of(self, run: Run, subject: str) -> dict[str, VariantPlan]:
        """By variant, the plans that a record of the variant or the case is made from."""
        if self.of == "variant":
            return {subject: self.plan_of(run, subject)}
        return {name: run.need(VariantPlan, name) for kind, name in self.needs(run, subject) if kind is VariantPlan}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One record to be made."""

    stage: Stage
    run: Run
    subject: str
    layout: Layout
    # of a `try`, which has the machine to itself and puts nothing on record: where captures go instead
    scratch: Path | None = None

    @property
    def plan(self) -> VariantPlan:
        return self.stage.plan_of(self.run, self.subject)

    @property
    def ranks(self) -> int:
        """GPUs that it has to lock."""
        return max((plan.ranks for plan in self.stage.plans_of(self.run, self.subject).values()), default=1)

    @property
    def commit(self) -> str:
        return commit(self.layout.root)

    @property
    def closure(self) -> Closure | None:
        """The workload's files as they stand when the job begins."""
        if self.scratch is not None:
            return None
        source, root = self.run.plan.source, self.layout.root
        return find_closure(source, self.run.plan.program or name_source(source, root), root)

    @property
    def captures(self) -> Path:
        return self.scratch or self.layout.captures(self.run.workload, self.run.name, self.subject)

    def given(self, kind: type[R]) -> dict[str, R]:
        """Those of the job's inputs, by subject, that are on record."""
        subjects = [subject for needed, subject in self.stage.inputs(self.run, self.subject) if needed is kind]
        return self.run.find_all(kind, subjects)

    def plans(self) -> dict[str, VariantPlan]:
        """Of the variant and of its ancestors."""
        return self.run.find_all(VariantPlan, (self.subject, *self.plan.ancestors))
