"""Play a match: look at both sides, judge them at the gate, time them in rounds, conclude. Imports no torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from phasewise.environment import name_device, name_gpus
from phasewise.judge.case import Judge, JudgeFailed
from phasewise.match.advice import explain_unfit, find_next_step
from phasewise.match.ask import CandidateProcess, ask_base, find_best
from phasewise.match.known import Base
from phasewise.match.plan import (
    ARMS,
    BASE,
    CANDIDATE,
    CASE,
    Effort,
    Setting,
    choose_allowance,
    find_widening,
    plan_side,
    widen,
)
from phasewise.match.revisions import check_out
from phasewise.match.side import Side, parse_side, read_source
from phasewise.match.verdict import find_worst, judge_times, refuse_at_gate
from phasewise.measure.compare import name_function
from phasewise.measure.entrant import Entrant
from phasewise.measure.neighbours import watch_machine
from phasewise.measure.processes import AHEAD, Processes
from phasewise.measure.sampler import sample_case
from phasewise.measure.sampling import Tools
from phasewise.records.base import Scalar
from phasewise.records.errors import UserError
from phasewise.records.judgement import WRONG, Best, Judgement, Match, find_deciding
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.records.verdict import Failure, Reason, Status
from phasewise.validate.case import validate_case
from phasewise.workers.enclosure import Enclosure, find_enclosure
from phasewise.workers.process import refuse_in_worker
from phasewise.workers.scratch import make_scratch

# folder of what both sides are built from
GIVEN = "given"
TRAINING = (
    "both run in training mode, as their constructors leave them: normalisation takes the batch's own mean and variance; "
    "call self.eval() in the base's __init__ if inference is meant"
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """What is the same for all shapes of a match."""

    sides: Mapping[str, Side]
    device: str
    tier: str
    effort: Effort
    # a folder of its own
    root: Path
    progress: Callable[[str], None]
    # what processes of each side may see and write; empty where they are trusted
    enclosures: Mapping[str, Enclosure]


def judge(
    base: str | Callable[..., Any],
    candidate: str | Callable[..., Any],
    *,
    device: str = "auto",
    tier: str = "moderate",
    effort: Effort | None = None,
    shapes: Sequence[Mapping[str, Scalar]] = (),
    isolated: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Match:
    """Whether `candidate` gives what `base` gives, and how much faster.

    Each is a function, a class of modules, or a file of KernelBench's form, named "file.py:name" or "pkg.module:name", with "@revision" for
    one of git's. Both are called with what `make_inputs(seed)`, `get_inputs()` or `setup()` of the base's module gives, and modules have
    the same weights. Results are compared with the base in float64, on batches that are drawn; a candidate that is wrong gets no ratio.
    `shapes` are others to judge at as well: values of parameters of these functions, or of constants of the base's module.
    `isolated`: processes that step either side have no network and can't write, but for a folder of their own.

    :raises UserError: a side or its inputs don't exist or are of another kind, a side's file changes meanwhile, or the base itself fails
    """
    refuse_in_worker("judge()")
    began = time.monotonic()
    names = {
        role: side if isinstance(side, str) else name_function(side)
        for role, side in ((BASE, base), (CANDIDATE, candidate))
    }
    device = choose_device(device)
    with ExitStack() as held:
        root = held.enter_context(make_scratch("match"))
        sides = {
            role: held.enter_context(check_out(parse_side(name), root / f"{role}-revision"))
            for role, name in names.items()
        }
        (root / GIVEN).mkdir()
        sources = {role: read_source(side) for role, side in sides.items()}
        enclosures = enclose(sides, root) if isolated else {}
        table = Table(
            sides=sides,
            device=device,
            tier=tier,
            effort=effort or Effort(),
            root=root,
            progress=progress,
            enclosures=enclosures,
        )
        found: list[Judgement] = []
        for shape in ({}, *shapes):
            found.append(judge_shape(table, shape))
            if found[-1].status in (Status.INVALID, Status.FAILED):
                break
        # fresh processes read them again
        for role, side in sides.items():
            if read_source(side) != sources[role]:
                raise UserError(f"judge: {side.source} has changed while it was judged; judge again")
    deciding = find_deciding(found)
    return Match(
        base=names[BASE], candidate=names[CANDIDATE], device=device,
        isolated=enclosures[CANDIDATE].kind if isolated else "", seconds=time.monotonic() - began,
        exit_code=deciding.exit_code, next_step=find_next_step(deciding), judgements=tuple(found),
    )  # fmt: skip


def enclose(sides: Mapping[str, Side], root: Path) -> dict[str, Enclosure]:
    """What processes of each side may see: their own files, and what the base's class is built from.

    :raises UserError: nothing here can keep a process apart
    """
    found: dict[str, Enclosure] = {}
    for role, side in sides.items():
        scratch = root / f"{role}-scratch"
        scratch.mkdir()
        kind = found[BASE].kind if found else find_enclosure(scratch)
        file = Path(side.source)
        own = (file.parent, file) if file.suffix == ".py" else ()
        shown = (*own, *(path for path in map(Path, side.roots) if path.is_dir()), root / GIVEN)
        found[role] = Enclosure(kind=kind, scratch=scratch, shown=shown, hidden=(root,))
    return found


def choose_device(device: str) -> str:
    """The named device; `auto` is a GPU where there is one.

    :raises UserError: there is no such device here
    """
    device = name_device(device)
    if device not in ("cpu", "cuda"):
        raise UserError(f"judge: device {device!r} is unknown; auto, cpu and cuda are allowed")
    if device == "cuda" and not name_gpus():
        raise UserError("judge: no NVIDIA GPU is found here; leave --device out, or set cpu")
    return device


def judge_shape(table: Table, overrides: Mapping[str, Scalar]) -> Judgement:
    """The verdict on one shape."""
    told: dict[str, Any] = {"shape": dict(overrides)}
    given = table.root / GIVEN
    start = given / f"{len(list(given.iterdir()))}.pt"
    # the candidate's own process ends before anything is timed
    with closing(CandidateProcess(table.sides[CANDIDATE], table.enclosures.get(CANDIDATE))) as process:
        table.progress("the base is called once")
        base = ask_base(table.sides[BASE], overrides, start, table.device)
        if isinstance(base, Failure):
            return leave_open(base, {**told, "reference": "none"})
        told["reference"] = base.dtype or "the dtype of its inputs"
        if (failure := process.find_early_failure()) is not None:
            return tell_crash(failure, told)
        side = msgspec.structs.replace(table.sides[BASE], name=base.name)
        setting = Setting(side=side, device=table.device, overrides=overrides, start=start, base=base)
        plan = plan_side(BASE, side, setting, choose_allowance(table.tier, setting), table.effort)
        plan, own, widened = judge_base(plan, table, is_declared=base.tolerance is not None)
        if own.failure is not None:
            return leave_open(own.failure, told)
        table.progress("the gate: the candidate")
        candidate = process.ask(start)
    if isinstance(candidate, Failure):
        return tell_crash(candidate, told)
    told |= {
        "doubts": (candidate.doubt,) if candidate.doubt else (), "allowance": plan.allowance, "widened": widened,
    }  # fmt: skip
    side = msgspec.structs.replace(table.sides[CANDIDATE], name=candidate.name)
    plans = {BASE: plan, CANDIDATE: plan_side(CANDIDATE, side, setting, plan.allowance, table.effort)}
    gate = validate_case(plans[CANDIDATE], CASE, table.root, baseline=own, enclosure=table.enclosures.get(CANDIDATE))
    told["gate"] = gate
    refused = refuse_at_gate(gate)
    if refused is not None:
        status, reason, detail = refused
        told["doubts"] += (TRAINING,) if reason == WRONG and base.trains else ()
        return Judgement(
            status=status, reason=reason, detail=detail, worst=find_worst(gate, None),
            traceback=gate.failure.traceback if gate.failure is not None else "", **told,
        )  # fmt: skip
    best, measured = time_sides(plans, own, base, table)
    return conclude(measured, best, told)


def leave_open(shortage: Failure, told: Mapping[str, Any]) -> Judgement:
    """No verdict, for want of memory."""
    return Judgement(
        status=Status.INCONCLUSIVE,
        reason=shortage.reason,
        detail=f"the base does not fit into memory ({shortage.message})",
        **told,
    )


def tell_crash(failure: Failure, told: Mapping[str, Any]) -> Judgement:
    """The verdict on a candidate that can't be built."""
    return Judgement(
        status=Status.FAILED, reason=failure.reason, detail=failure.message, traceback=failure.traceback, **told
    )


def judge_base(plan: VariantPlan, table: Table, *, is_declared: bool) -> tuple[VariantPlan, CaseValidation, float]:
    """The base's plan, its own gate (passed, or out of memory), and how many times the plan's tolerances were widened.

    `is_declared`: they are the base's own, and widened only where it does not keep them itself.

    :raises UserError: it does not pass
    """
    table.progress("the gate: the base")
    own, widened = validate_case(plan, CASE, table.root, enclosure=table.enclosures.get(BASE)), 1.0
    times = find_widening(own, is_declared=is_declared)
    if times is not None:
        plan, widened = msgspec.structs.replace(plan, allowance=widen(plan.allowance, times)), times
        table.progress(f"the base itself is off: {times:.3g} times the tier is allowed")
        if own.outcome is not Outcome.PASS:
            own = validate_case(plan, CASE, table.root, enclosure=table.enclosures.get(BASE))
    lacks_memory = own.failure is not None and own.failure.reason is Reason.OUT_OF_MEMORY
    if own.outcome is not Outcome.PASS and not lacks_memory:
        raise UserError(f"judge: the base can't be judged by itself ({explain_unfit(own)})")
    return plan, own, widened


def time_sides(
    plans: Mapping[str, VariantPlan], own: CaseValidation, base: Base, table: Table
) -> tuple[Best | None, CaseMeasurement]:
    """The best possible time; the base, the candidate and the base once more, in the same rounds."""
    judge = Judge(plans[CANDIDATE], CASE, table.root, dict.fromkeys(ARMS, 1))
    entrants = {arm: _make_entrant(judge, arm, plans[role], table) for arm, role in ARMS.items()}
    processes = Processes(entrants)
    try:
        table.progress("the ceilings of this machine")
        with ThreadPoolExecutor(1) as beside:
            finding = beside.submit(find_best, base, table.device)
            if table.device == "cpu":
                # nothing else may keep the cores busy
                finding.result()
            # beside a GPU there are cores for the imports of all sets
            sets = 1 if table.device == "cpu" else min(AHEAD, table.effort.sets)
            for arm in ARMS:
                processes.start_waiting(arm, range(sets))
            judge.open(own)
            processes.wait()
            best = finding.result()
        table.progress("rounds")
        tools = Tools(watch=watch_machine(table.device))
        return best, sample_case(CASE, processes, [("parent", "variant")], plans[BASE].budget, tools, judge=judge)
    except JudgeFailed as died:
        raise UserError(f"judge: the base can't be run ({died.failure.message})") from died
    finally:
        processes.leave(ARMS)
        judge.close()


def _make_entrant(judge: Judge, arm: str, plan: VariantPlan, table: Table) -> Entrant:
    launch = replace(judge.launch(arm, plan), enclosure=table.enclosures.get(plan.variant))
    return Entrant(arm=arm, variant=plan.variant, device=table.device, launches=(launch,), shares_hooks=True)


def conclude(measured: CaseMeasurement, best: Best | None, told: Mapping[str, Any]) -> Judgement:
    """The verdict on what was timed."""
    worst = find_worst(told["gate"], measured)
    fields = {**told, **judge_times(measured), "best": best, "worst": worst, "measurement": measured}
    return msgspec.convert(fields, Judgement)
