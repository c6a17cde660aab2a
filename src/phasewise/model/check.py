"""Mistakes in a workload that can be seen without running it: one sentence each, all of them before any job starts."""

from __future__ import annotations

import ast
import dataclasses
import difflib
from collections.abc import Iterable
from pathlib import Path

from phasewise.model.fields import TIERS, Ranks
from phasewise.model.parse import parse
from phasewise.model.tolerances import check_tolerances
from phasewise.model.workload import Peer, Phase, Risk, Target, Workload
from phasewise.records.base import Scalar
from phasewise.records.errors import PlanError
from phasewise.records.finding import FindingId

# metric -> (better, unit); any other metric has to be a number that a check returns
METRICS = {
    "speedup": ("higher", "x"),
    "time_s": ("lower", "s"),
    "items_per_s": ("higher", "1/s"),
    "peak_memory_bytes": ("lower", "B"),
    "energy_j_per_item": ("lower", "J"),
    "floor_fraction": ("higher", ""),
    "scaling_efficiency": ("higher", ""),
    "utilisation": ("higher", ""),
    # counted in the trace of a GPU, a step
    "launches": ("lower", ""),
    "synchronisations": ("lower", ""),
    "device_to_host": ("lower", ""),
}
# checks that the core brings; `validate.checks` holds their functions
CORE_CHECKS = ("bitwise-repeatable", "finite", "memory-flat", "resume", "second-call")
# the switch that says how many processes a variant has
RANKS = "ranks"
REQUIRED = ("make_inputs", "build")


def check_workload(
    workload: Workload, name: str, *, program: Path | None = None, checks: Path | None = None
) -> Workload:
    """`workload` with each field as its type says. The files of its program and of its checks are read, not imported.

    Raises:
        PlanError: one sentence, at the first mistake.
    """
    place = f"workload {name}"
    workload = parse(workload, Workload, place)
    _check_switches(workload, place)
    _check_cases(workload, place)
    if program is not None and program.suffix == ".py":
        _check_program(program, place)
    known = set(CORE_CHECKS) | (set() if checks is None else list_checks(checks))
    goals = {target.name for _, target in _targets(workload) if target.name}
    _check_phases(workload, place)
    for owner, risk in _risks(workload):
        _check_risk(risk, f"{place}: {owner}", known, goals)
    for check in workload.checks:
        if check.name not in known:
            raise PlanError(
                f"{place}: check {check.name!r} is not a function of {'checks.py' if checks is None else checks.name} nor one of "
                f"{', '.join(CORE_CHECKS)}; write it or correct the name"
            )
        _check_cases_named(workload, check.cases, f"{place}: check {check.name!r}")
    for owner, target in _targets(workload):
        _check_target(workload, target, f"{place}: {owner}")
    if len({peer.name for peer in workload.peers}) < len(workload.peers):
        raise PlanError(f"{place}: two peers have the same name; rename one")
    for peer in workload.peers:
        _check_cases_named(workload, peer.cases, f"{place}: peer {peer.name!r}")
        _check_beside(workload, peer, f"{place}: peer {peer.name!r}")
    for tier in TIERS:
        if tier not in workload.tiers:
            raise PlanError(
                f"{place}: tier {tier!r} is missing; give strict, moderate and relaxed, or leave `tiers` out"
            )
    check_tolerances(workload, place)
    return workload


def _check_switches(workload: Workload, place: str) -> None:
    kind = workload.switches
    if not dataclasses.is_dataclass(kind):
        raise PlanError(f"{place}: switches is {kind!r}; a frozen dataclass is needed, add @dataclass(frozen=True)")
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise PlanError(
            f"{place}: switches {kind.__name__} can be changed; a frozen dataclass is needed, add frozen=True"
        )
    for item in dataclasses.fields(kind):
        if item.default is dataclasses.MISSING:
            raise PlanError(f"{place}: switch {item.name!r} has no default; give the value of the baseline")
        here = f"{place}: switch {item.name!r}"
        if type(parse(item.default, Scalar, here)) is not type(item.default):
            raise PlanError(
                f"{here} is a {type(item.default).__name__}; bool, int, float or str is allowed, keep objects in the program"
            )
        if item.name == RANKS:
            parse(item.default, Ranks, here)


def _check_cases(workload: Workload, place: str) -> None:
    if not workload.cases:
        raise PlanError(f"{place}: it has no case; give at least one")
    for name, case in workload.cases.items():
        if case.tiny is None and case.small is None and case.full is None:
            raise PlanError(f"{place}: case {name!r} has no size; give tiny, small or full a Shape")


def _check_phases(workload: Workload, place: str) -> None:
    known = {item.name: item.default for item in dataclasses.fields(workload.switches)}
    # the switches of each phase, and of the last kept one, by case
    stack: dict[str, dict[str, dict[str, object]]] = {}
    current: dict[str, dict[str, object]] = {case: dict(known) for case in workload.cases}
    for phase in workload.phases:
        here = f"{place}: phase {phase.name!r}"
        if phase.name in stack:
            raise PlanError(f"{here}: the name is used twice; rename one")
        for switch, value in phase.sets.items():
            if switch not in known:
                raise PlanError(f"{here}: switch {switch!r} is unknown; choose among {', '.join(known) or 'none'}")
            expected = type(known[switch])
            if type(value) is not expected and not (expected is float and type(value) is int):
                raise PlanError(
                    f"{here}: switch {switch!r} is set to {value!r}; a value of type {expected.__name__} is needed"
                )
            if switch == RANKS:
                parse(value, Ranks, f"{here}: switch {switch!r}")
        if phase.onto is not None and phase.onto not in stack:
            raise PlanError(
                f"{here}: onto={phase.onto!r} is no phase before it; choose among {', '.join(stack) or 'none'}"
            )
        _check_phase_words(workload, phase, here)
        base = stack[phase.onto] if phase.onto else current
        touched = [case for case in workload.cases if not phase.cases or case in phase.cases]
        if all(base[case][switch] == value for case in touched for switch, value in phase.sets.items()):
            raise PlanError(f"{here}: it changes nothing of what it is built on; set a switch or drop the phase")
        stack[phase.name] = base | {case: base[case] | dict(phase.sets) for case in touched}
        if phase.keep:
            current = stack[phase.name]


def _check_phase_words(workload: Workload, phase: Phase, here: str) -> None:
    if isinstance(phase.because, str) and phase.because not in {"", *FindingId}:
        raise PlanError(
            f"{here}: because={phase.because!r} is no finding; choose one of {', '.join(FindingId)}, write Idea('...'), or leave it out"
        )
    if phase.part is not None and phase.part not in workload.parts:
        raise PlanError(f"{here}: part {phase.part!r} is unknown; choose among {', '.join(workload.parts) or 'none'}")
    if phase.must is not None and phase.keep:
        raise PlanError(f"{here}: a phase that must be INVALID can't be kept; add keep=False")
    if phase.stays and not phase.keep:
        raise PlanError(f"{here}: stays= is the reason why a kept phase stays; drop it, or keep=False")
    for word, bounds in (("expect", phase.expect), ("documented", phase.documented)):
        if bounds is not None and bounds[0] > bounds[1]:
            raise PlanError(f"{here}: {word}={bounds!r} is no interval of speed-ups; give (low, high) with low <= high")
    _check_cases_named(workload, phase.cases, here)


def _check_beside(workload: Workload, peer: Peer, here: str) -> None:
    if peer.beside is None:
        return
    phase = next((phase for phase in workload.phases if phase.name == peer.beside), None)
    if phase is None:
        names = ", ".join(phase.name for phase in workload.phases)
        raise PlanError(f"{here}: beside={peer.beside!r} is no phase; choose among {names or 'none'}")
    for case in peer.cases or workload.cases:
        if phase.cases and case not in phase.cases:
            raise PlanError(
                f"{here}: beside={peer.beside!r} does not apply to case {case!r}; name other cases, or another phase"
            )


def _check_cases_named(workload: Workload, cases: Iterable[str], here: str) -> None:
    for case in cases:
        if case not in workload.cases:
            raise PlanError(f"{here}: case {case!r} is unknown; choose among {', '.join(workload.cases)}")


def _check_risk(risk: Risk, here: str, known: set[str], goals: set[str]) -> None:
    here = f"{here}: risk {risk.title!r}"
    if [risk.check, risk.target, risk.by_hand].count(None) != 2:
        raise PlanError(f"{here}: give either check='...', target='...' or by_hand='why neither can tell'")
    if risk.target is not None and risk.target not in goals:
        raise PlanError(
            f"{here}: target {risk.target!r} does not exist; choose among {', '.join(sorted(goals)) or 'none that has a name'}"
        )
    if risk.check is not None and risk.check not in known:
        raise PlanError(
            f"{here}: check {risk.check!r} does not exist; choose among {', '.join(sorted(known))}, or write it"
        )


def _check_target(workload: Workload, target: Target, here: str) -> None:
    here = f"{here}: target {target.metric!r}"
    bounds = [bound for bound in (target.minimum, target.target, target.stretch) if bound is not None]
    if not bounds:
        raise PlanError(f"{here}: it has no bound; give minimum, target or stretch")
    better = METRICS[target.metric][0] if target.metric in METRICS else target.better
    if not better:
        near = difflib.get_close_matches(target.metric, METRICS, n=1)
        meant = f"did you mean {near[0]!r}? " if near else f"{', '.join(METRICS)} are known by themselves; "
        raise PlanError(
            f"{here}: {meant}a check's number has to say which way is better: better='higher' or better='lower'"
        )
    if bounds != sorted(bounds, reverse=better == "lower"):
        raise PlanError(f"{here}: minimum, target and stretch are out of order for a metric where {better} is better")
    if target.case is not None and target.case not in workload.cases:
        raise PlanError(f"{here}: case {target.case!r} is unknown; choose among {', '.join(workload.cases)}")
    without = [phase.name for phase in workload.phases if not phase.keep]
    allowed = ("baseline", "parent", "absolute", *(peer.name for peer in workload.peers), *without)
    if target.against not in allowed:
        raise PlanError(f"{here}: against={target.against!r} is not allowed; choose among {', '.join(allowed)}")
    if target.metric == "speedup" and target.against == "absolute":
        raise PlanError(f"{here}: a speed-up is against something; say against='baseline', 'parent' or a peer")


def _targets(workload: Workload) -> Iterable[tuple[str, Target]]:
    yield from (("workload", target) for target in workload.targets)
    yield from ((f"part {part!r}", target) for part, targets in workload.parts.items() for target in targets)
    yield from ((f"phase {phase.name!r}", target) for phase in workload.phases for target in phase.targets)


def _risks(workload: Workload) -> Iterable[tuple[str, Risk]]:
    yield from (("workload", risk) for risk in workload.risks)
    yield from ((f"phase {phase.name!r}", risk) for phase in workload.phases for risk in phase.risks)


def list_checks(file: Path) -> set[str]:
    """Names of the checks that a file defines."""
    found = ast.parse(file.read_bytes(), str(file)).body
    return {node.name.replace("_", "-") for node in found if isinstance(node, ast.FunctionDef)}


def _check_program(file: Path, place: str) -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    missing = [name for name in REQUIRED if not names & {name, "*"}]
    if missing:
        raise PlanError(
            f"{place}: {file.name} has no function {missing[0]!r}; a program needs {' and '.join(REQUIRED)}"
        )
