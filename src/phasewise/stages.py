"""The stages that make a record, one row each: the graph's inputs, the subcommands, `try`, `retry` and budgets read them.

A new stage is a row here, a line in `records/files.py`, and a folder. Listing the stages imports no torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from phasewise.jobs import OF_RUN, Job, Need, Stage
from phasewise.model.headline import Cast, cast_headline, find_own, is_in_headlines
from phasewise.model.stack import BASELINE
from phasewise.model.stand_ins import name_stand_ins
from phasewise.records.analyse import VariantAnalysis
from phasewise.records.base import find_case
from phasewise.records.export import Export
from phasewise.records.measure import ControlMeasurement, HeadlineMeasurement, Measurement
from phasewise.records.plan import CapturePlan, Kind, PreparePlan, RunPlan, VariantPlan
from phasewise.records.predict import Predicted
from phasewise.records.prepare import Prepared
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.run import Run
from phasewise.store import digest
from phasewise.workers.lock import lock_machine, share_machine


def list_later(stage: Stage, run: Run, variant: str) -> list[Stage]:
    """The stage, and those whose records of the same variant are made from its record."""
    found = [stage]
    for later in STAGES.values():
        made = [(one.record, variant) for one in found]
        if later.of == "variant" and later not in found and set(made) & set(later.inputs(run, variant)):
            found.append(later)
    return found


def _is_step(run: Run, variant: str) -> bool:
    return run.need(VariantPlan, variant).kind in (Kind.BASELINE, Kind.PHASE)


def _has_own_rounds(run: Run, variant: str) -> bool:
    """A peer that all its headlines have needs no more."""
    is_peer = run.need(VariantPlan, variant).kind is Kind.PEER
    return not (is_peer and is_in_headlines(run.plan, run.find_all(VariantPlan), variant))


def _count_cases(run: Run, variant: str) -> int:
    return len(run.need(VariantPlan, variant).cases)


def _list_seconds(record: Validation | Measurement) -> list[float]:
    return [case.seconds for case in record.cases]


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
    plan = run.need(VariantPlan, variant)
    return [(VariantPlan, variant), *((Validation, name) for name in (variant, *plan.ancestors))]


def _need_predicted(run: Run, variant: str) -> list[Need]:
    """What is predicted of it."""
    is_phase = run.need(VariantPlan, variant).kind is Kind.PHASE
    return [*OF_RUN, *([(Predicted, variant)] if is_phase else [])]


def _find_own_headlines(run: Run, variant: str) -> list[str]:
    """Cases whose headline its own rounds are."""
    plans = run.find_all(VariantPlan)
    casts = {case.case: cast_headline(run.plan, plans, case.case) for case in plans[variant].cases}
    return [case for case, cast in casts.items() if find_own(cast, plans, case) == variant]


def _measure(job: Job) -> Measurement:
    from phasewise.measure import measure_variant

    machine = job.run.machine
    ahead = machine.kind == "cuda" and job.scratch is None
    headlines = () if job.scratch is not None else _find_own_headlines(job.run, job.subject)
    # before anything is timed
    predicted = job.run.find(Predicted, job.subject)
    record = measure_variant(
        job.plan,
        job.plans(),
        job.given(Validation),
        root=job.layout.root,
        machine=machine.identity,
        commit=job.commit,
        headlines=headlines,
        closure=job.closure,
        gpu_memory_bytes=machine.memory_bytes if ahead else 0,
    )
    return msgspec.structs.replace(record, predicted="" if predicted is None else digest(predicted))


def _plans(run: Run, names: Iterable[str]) -> list[VariantPlan]:
    return [run.need(VariantPlan, name) for name in names]


def _cast(run: Run, case: str) -> Cast:
    return cast_headline(run.plan, run.find_all(VariantPlan), case)


def _need_cast(run: Run, case: str) -> list[Need]:
    return [(kind, name) for name in _cast(run, case).members for kind in (VariantPlan, Validation)]


def _need_stack(run: Run, case: str) -> list[Need]:
    """What tells where the stack ends."""
    cast = _cast(run, case)
    inner = [name for name in cast.stack if name not in cast.members]
    known = [(kind, name) for name in inner for kind in (VariantPlan, Validation)]
    return [*OF_RUN, *known, *((Measurement, name) for name in cast.stack)]


def _headline(job: Job) -> HeadlineMeasurement:
    from phasewise.measure import measure_headline

    machine = job.run.machine
    return measure_headline(
        _cast(job.run, job.subject), job.subject, job.given(VariantPlan), job.given(Validation), job.given(Measurement),
        root=job.layout.root, machine=machine.identity, commit=job.commit,
        gpu_memory_bytes=machine.memory_bytes if machine.kind == "cuda" else 0,
    )  # fmt: skip


def _need_end(run: Run, case: str) -> list[Need]:
    top = _cast(run, case).stack[0]
    return [(kind, top) for kind in (VariantPlan, Validation)]


def _need_case(run: Run, case: str) -> list[Need]:
    """What tells where the stack ends, and what the case has taken so far."""
    stack = _cast(run, case).stack
    known = [(kind, name) for name in stack[1:] for kind in (VariantPlan, Validation)]
    return [*OF_RUN, *known, *((Measurement, name) for name in stack), (HeadlineMeasurement, case)]


def _control(job: Job) -> ControlMeasurement:
    from phasewise.measure import measure_control
    from phasewise.measure.control import sum_seconds

    machine, case, measured = job.run.machine, job.subject, job.given(Measurement)
    headlines = [record.measured for record in job.given(HeadlineMeasurement).values()]
    return measure_control(
        _cast(job.run, case), case, job.given(VariantPlan), job.given(Validation), measured,
        root=job.layout.root, machine=machine.identity, commit=job.commit,
        others_s=sum_seconds([*(find_case(record, case) for record in measured.values()), *headlines]),
        gpu_memory_bytes=machine.memory_bytes if machine.kind == "cuda" else 0,
    )  # fmt: skip


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
    needs=lambda run, _: [(PreparePlan, "")], guess=lambda run, _: 60.0, make=_prepare,
)  # fmt: skip
VALIDATE = Stage(
    name="validate", about="Compare a variant with the float64 reference: the gate before any timing.", record=Validation,
    needs=_need_gates_before, after=lambda run, _: OF_RUN, lock="shared",
    guess=lambda run, variant: 25.0 * _count_cases(run, variant), took=_list_seconds, make=_validate,
)  # fmt: skip
PREDICT = Stage(
    name="predict", about="Say what a phase should gain, from its parent's profile, before it is measured.", record=Predicted,
    applies=lambda run, variant: run.need(VariantPlan, variant).kind is Kind.PHASE,
    needs=lambda run, variant: [(VariantPlan, variant)], after=_need_parents,
    make=_predict,
)  # fmt: skip
MEASURE = Stage(
    name="measure", about="Time a variant beside its parent, in interleaved rounds of paired processes.",
    record=Measurement, applies=_has_own_rounds, needs=_need_gates, after=_need_predicted, lock="alone",
    guess=lambda run, variant: run.need(VariantPlan, variant).budget.seconds * _count_cases(run, variant) / 2,
    took=_list_seconds, make=_measure,
)  # fmt: skip
HEADLINE = Stage(
    name="headline", about="Time the baseline, the end of the stack and its peers in the same rounds.",
    record=HeadlineMeasurement, of="case", needs=_need_cast, after=_need_stack, lock="alone",
    guess=lambda run, case: sum(plan.budget.seconds for plan in _plans(run, _cast(run, case).members)) / 2,
    took=lambda record: [record.measured.seconds], make=_headline,
)  # fmt: skip
CONTROL = Stage(
    name="control", about="Time the end of the stack beside itself.",
    record=ControlMeasurement, of="case", needs=_need_end, after=_need_case, lock="alone",
    guess=lambda run, case: run.need(VariantPlan, run.plan.stack[case]).budget.seconds / 2,
    took=lambda record: [record.measured.seconds], make=_control,
)  # fmt: skip
PROFILE = Stage(
    name="profile", about="Capture where the time of a step goes; the captures go to profiles/captures.", record=Profile,
    applies=_is_step, needs=_need_captures, after=lambda run, _: OF_RUN, lock="shared",
    guess=lambda run, variant: 60.0 * _count_cases(run, variant), make=_profile,
)  # fmt: skip
EXPORT = Stage(
    name="export", about="Write a variant as torch.export, AOTInductor, ONNX and TensorRT; reload, compare and time each.",
    record=Export, applies=lambda run, variant: bool(run[variant].full_plan.exporters), needs=_need_captures, after=lambda run, _: OF_RUN, lock="alone",
    guess=lambda run, variant: 120.0 * _count_cases(run, variant), make=_export,
)  # fmt: skip
ANALYSE = Stage(
    name="analyse", about="Find what holds a variant back.", record=VariantAnalysis,
    applies=_is_step, needs=_need_own, make=_analyse,
)  # fmt: skip
# in the order in which a variant goes through them
STAGES = {
    stage.name: stage for stage in (PREPARE, VALIDATE, PREDICT, MEASURE, HEADLINE, CONTROL, PROFILE, EXPORT, ANALYSE)
}
