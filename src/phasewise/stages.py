"""The stages that make a record, one row each: the graph's inputs, the subcommands, `try`, `retry` and budgets read them.

A new stage is a row here, a line in `records/files.py`, and a folder. Listing the stages imports no torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from phasewise.environment import commit
from phasewise.model.discover import name_source
from phasewise.model.freshness import Closure, find_closure
from phasewise.model.layout import Layout
from phasewise.model.stack import BASELINE
from phasewise.model.stand_ins import name_stand_ins
from phasewise.records.analyse import VariantAnalysis
from phasewise.records.base import Record
from phasewise.records.export import Export
from phasewise.records.machine import Machine
from phasewise.records.measure import Measurement
from phasewise.records.plan import CapturePlan, Kind, PreparePlan, RunPlan, VariantPlan
from phasewise.records.predict import Predicted
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.run import Run
from phasewise.store import digest
from phasewise.workers.lock import lock_machine, share_machine

R = TypeVar("R", bound=Record)
# a record, and of what: a variant, a case, "" for the run
Need = tuple[type[Record], str]
# what a job that runs the workload needs of the run
OF_RUN: tuple[Need, ...] = ((Prepared, ""), (Machine, ""))


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How the records of one kind are made, and from what; `subject` is the variant or the case, "" for the run."""

    # the folder, the subcommand, the rule file
    name: str
    about: str
    record: type[Record]
    # what there is one record each of
    of: Literal["run", "case", "variant"] = "variant"
    # whether a variant of this plan gets such a record
    applies: Callable[[VariantPlan], bool] = bool
    # records that a job reads, apart from plans of others: it runs again when one of them changes
    needs: Callable[[Run, str], Iterable[Need]]
    # others that have to be there before it; while its own record is of today's plan, their age tells nothing
    after: Callable[[Run, str], Iterable[Need]] = lambda run, subject: ()
    # "none": runs no program of the workload; "shared": `make` keeps measurements off the machine while it needs to;
    # "alone": has the machine to itself
    lock: Literal["none", "shared", "alone"] = "none"
    # that a job may take, for `--budget`; None is not worth a word
    seconds: Callable[[Run, str], float] | None = None
    make: Callable[[Job], Record]

    def inputs(self, run: Run, subject: str) -> list[Need]:
        """All records that a job reads or waits for."""
        return [*self.needs(run, subject), *self.after(run, subject)]

    def plan_of(self, run: Run, variant: str) -> VariantPlan:
        """What a record of the variant is made from: its plan, with what is captured of it where the stage needs that."""
        captures = (CapturePlan, variant) in self.needs(run, variant)
        return run[variant].full_plan if captures else run.need(VariantPlan, variant)


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


def list_later(stage: Stage, run: Run, variant: str) -> list[Stage]:
    """The stage, and those whose records of the same variant are made from its record."""
    found = [stage]
    for later in STAGES.values():
        made = [(one.record, variant) for one in found]
        if later.of == "variant" and later not in found and set(made) & set(later.inputs(run, variant)):
            found.append(later)
    return found


def _is_step(plan: VariantPlan) -> bool:
    return plan.kind in (Kind.BASELINE, Kind.PHASE)


def _count_cases(run: Run, variant: str) -> int:
    return len(run.need(VariantPlan, variant).cases)


def _prepare(job: Job) -> Prepared:
    from phasewise.prepare.apart import prepare_in_process

    return prepare_in_process(job.run.need(PreparePlan), job.closure, job.layout)


def _need_gates_before(run: Run, variant: str) -> list[Need]:
    """The gate of the baseline, whose own error the others are compared with.

    Gates wait for no other, so that they can run side by side, unless the reference covers a sample and the baseline is too
    slow for the rest: then for those that may stand in for it there.
    """
    plan = run.need(VariantPlan, variant)
    plans = run.find_all(VariantPlan, plan.ancestors)
    stand_ins = {name for case in plan.cases for name in name_stand_ins(case, plans)}
    gates = [name for name in plan.ancestors if name == BASELINE or name in stand_ins]
    return [(VariantPlan, variant), *((Validation, name) for name in gates)]


def _validate(job: Job) -> Validation:
    from phasewise.validate import validate_variant
    from phasewise.validate.events import write_curves

    plan = job.plan
    record = validate_variant(
        plan,
        job.plans(),
        job.given(Validation),
        root=job.layout.root,
        machine=job.run.machine.identity,
        commit=job.commit,
        closure=job.closure,
        lock=None if job.scratch is not None else partial(lock_machine, plan.device, ranks=plan.ranks),
    )
    write_curves(record, job.captures)
    return record


def _need_gates(run: Run, variant: str) -> list[Need]:
    """A control has no gate of its own: it repeats a variant that has one."""
    plan = run.need(VariantPlan, variant)
    own = [] if plan.kind is Kind.CONTROL else [variant]
    return [(VariantPlan, variant), *((Validation, name) for name in (*own, *plan.ancestors))]


def _need_measured(run: Run, variant: str) -> list[Need]:
    """What is known of the ancestors' times, which says whether they are too slow to be repeated; and what is predicted of it."""
    plan = run.need(VariantPlan, variant)
    known = plan.ancestors if plan.kind is Kind.PHASE else ()
    if plan.kind is Kind.CONTROL:
        known = tuple(sorted({case.parent for case in plan.cases if case.parent}))
    predicted = [(Predicted, variant)] if plan.kind is Kind.PHASE else []
    return [*OF_RUN, *predicted, *((Measurement, name) for name in known)]


def _measure(job: Job) -> Measurement:
    from phasewise.measure import measure_variant

    machine = job.run.machine
    ahead = machine.kind == "cuda" and job.scratch is None
    # before anything is timed
    predicted = job.run.find(Predicted, job.subject)
    record = measure_variant(
        job.plan,
        job.plans(),
        job.given(Validation),
        job.given(Measurement),
        root=job.layout.root,
        machine=machine.identity,
        commit=job.commit,
        closure=job.closure,
        gpu_memory_bytes=machine.memory_bytes if ahead else 0,
    )
    return msgspec.structs.replace(record, predicted="" if predicted is None else digest(predicted))


def _need_captures(run: Run, variant: str) -> list[Need]:
    return [(kind, variant) for kind in (VariantPlan, CapturePlan, Validation)]


def _profile(job: Job) -> Profile:
    from phasewise.profile import profile_variant

    plan, machine = job.plan, job.run.machine
    share: Callable[[], contextlib.AbstractContextManager[None]] = partial(share_machine, plan.device)
    lock_alone: Callable[[], contextlib.AbstractContextManager[None]] = partial(lock_machine, plan.device)
    if job.scratch is not None:
        share = lock_alone = contextlib.nullcontext
    return profile_variant(
        plan, job.run[job.subject].validation, machine=machine, root=job.layout.root, captures=job.captures, commit=job.commit,
        share=share, lock_alone=lock_alone,
    )  # fmt: skip


def _export(job: Job) -> Export:
    from phasewise.export import export_variant

    folder = job.layout.exports(job.run.workload, job.run.name, job.subject)
    return export_variant(
        job.plan, job.run[job.subject].validation, root=job.layout.root, folder=folder,
        machine=job.run.machine.identity, commit=job.commit,
    )  # fmt: skip


def _need_own(run: Run, variant: str) -> list[Need]:
    """Records of this variant alone."""
    return [*OF_RUN, (RunPlan, ""), *((kind, variant) for kind in (Validation, Measurement, Profile))]


def _analyse(job: Job) -> VariantAnalysis:
    from phasewise.analyse import analyse_variant

    job.run.need(Prepared)
    return analyse_variant(job.run, job.subject)


def _need_parents(run: Run, variant: str) -> list[Need]:
    """What is profiled and validated of the parents; none of their times, and nothing of the variant's own."""
    cases = run.need(VariantPlan, variant).cases
    parents = dict.fromkeys(case.parent for case in cases if case.parent is not None)
    return [*OF_RUN, (RunPlan, ""), *((kind, name) for name in parents for kind in (Validation, Profile))]


def _predict(job: Job) -> Predicted:
    from phasewise.analyse import predict_variant, read_ledgers

    return predict_variant(job.run, job.subject, read_ledgers(job.layout))


PREPARE = Stage(
    name="prepare", about="Make a workload's artifacts.", record=Prepared, of="run",
    needs=lambda run, _: [(PreparePlan, "")], seconds=lambda run, _: 60.0, make=_prepare,
)  # fmt: skip
VALIDATE = Stage(
    name="validate", about="Compare a variant with the float64 reference: the gate before any timing.", record=Validation,
    applies=lambda plan: plan.kind is not Kind.CONTROL, needs=_need_gates_before, after=lambda run, _: OF_RUN, lock="shared",
    seconds=lambda run, variant: 25.0 * _count_cases(run, variant), make=_validate,
)  # fmt: skip
PREDICT = Stage(
    name="predict", about="Say what a phase should gain, from its parent's profile, before it is measured.", record=Predicted,
    applies=lambda plan: plan.kind is Kind.PHASE, needs=lambda run, variant: [(VariantPlan, variant)], after=_need_parents,
    make=_predict,
)  # fmt: skip
MEASURE = Stage(
    name="measure", about="Time a variant beside its parent and the baseline, in interleaved rounds of paired processes.",
    record=Measurement, needs=_need_gates, after=_need_measured, lock="alone",
    seconds=lambda run, variant: run.need(VariantPlan, variant).budget.seconds * _count_cases(run, variant) / 2, make=_measure,
)  # fmt: skip
PROFILE = Stage(
    name="profile", about="Capture where the time of a step goes; the captures go to profiles/captures.", record=Profile,
    applies=_is_step, needs=_need_captures, after=lambda run, _: OF_RUN, lock="shared",
    seconds=lambda run, variant: 60.0 * _count_cases(run, variant), make=_profile,
)  # fmt: skip
EXPORT = Stage(
    name="export", about="Write a variant as torch.export, AOTInductor, ONNX and TensorRT; reload, compare and time each.",
    record=Export, applies=lambda plan: bool(plan.exporters), needs=_need_captures, after=lambda run, _: OF_RUN, lock="alone",
    seconds=lambda run, variant: 120.0 * _count_cases(run, variant), make=_export,
)  # fmt: skip
ANALYSE = Stage(
    name="analyse", about="Find what holds a variant back.", record=VariantAnalysis,
    applies=_is_step, needs=_need_own, make=_analyse,
)  # fmt: skip
# in the order in which a variant goes through them
STAGES = {stage.name: stage for stage in (PREPARE, VALIDATE, PREDICT, MEASURE, PROFILE, EXPORT, ANALYSE)}
