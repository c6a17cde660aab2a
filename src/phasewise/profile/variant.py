"""The profile stage: each case in a process of its own, then the Nsight tools, which start theirs; beside a GPU several side by side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from phasewise.environment import count_cores
from phasewise.profile.nsight_compute import KERNELS, count_kernels
from phasewise.profile.nsight_systems import watch_system
from phasewise.profile.shape import choose_shape
from phasewise.records.base import find_case
from phasewise.records.machine import Machine
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.records.profile import Capture, CaseProfile, Profile
from phasewise.records.validate import Outcome, Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.store import digest, write
from phasewise.workers.isolated import run_isolated
from phasewise.workers.lock import lock_captures
from phasewise.workers.scratch import make_scratch
from phasewise.workers.side_by_side import run_side_by_side, was_too_tight

# of one case in its process: waiting for the device, building, compiling, warming up, tracing
TIMEOUT_S = 900.0

# beside a GPU so many variants are profiled side by side (PROFILES in workflow/rules/common.smk), and of each as many cases as leave a core
# for every case: to read a trace takes one, and only one case at a time is on the device
VARIANTS_AT_ONCE = 3
LEAST_CASES = 2
# kernels that are counted where a slow baseline is profiled at a smaller shape: each costs a process that runs all of its
# launches, and they are not the kernels of the whole
FEW_KERNELS = 1

# (plan, case, root, captures, machine) -> the profile of one case
ProfileCase = Callable[[VariantPlan, str, Path, Path, Machine], CaseProfile]
Lock = Callable[[], contextlib.AbstractContextManager[None]]


def profile_variant(
    plan: VariantPlan,
    gate: Validation | None,
    *,
    machine: Machine,
    root: Path,
    captures: Path,
    commit: str,
    share: Lock = contextlib.nullcontext,
    lock_alone: Lock = contextlib.nullcontext,
    profile_one: ProfileCase | None = None,
) -> Profile:
    """Profile every case of `plan` that passed the gate; captures go below `captures`, one folder a case.

    A variant that cannot be timed here, or a case whose gate is red, is a finished job with the reason. A process that dies
    costs its own case only. `share()` keeps measurements off the device meanwhile, and `lock_alone()` everything: a case that ran
    out of memory beside others runs again there. `profile_one` stands in for the process of a case in tests.
    """
    one = profile_in_process if profile_one is None else profile_one

    def profile(planned: PlannedCase) -> CaseProfile:
        failure = _refuse(plan, gate, planned.case)
        if failure is not None:
            return CaseProfile(case=planned.case, failure=failure)
        began = time.monotonic()
        found = _profile_case(plan, planned.case, machine, root, captures, one)
        return msgspec.structs.replace(found, seconds=time.monotonic() - began)

    wanted = plan.cases if plan.profilers else ()
    at_once = 1 if plan.device == "cpu" else max(LEAST_CASES, count_cores() // VARIANTS_AT_ONCE)
    with share():
        cases = run_side_by_side(profile, wanted, at_once)
    if at_once > 1 and any(map(was_too_tight, wanted, (found.failure for found in cases))):
        with lock_alone():
            cases = tuple(
                profile(planned) if was_too_tight(planned, found.failure) else found
                for planned, found in zip(wanted, cases, strict=True)
            )
    return Profile(
        workload=plan.workload, run=plan.run, variant=plan.variant, plan=digest(plan), machine=machine.identity, commit=commit,
        cases=cases,
    )  # fmt: skip


def profile_in_process(plan: VariantPlan, case: str, root: Path, captures: Path, machine: Machine) -> CaseProfile:
    """`case.profile_case` in a fresh process; one that fails, dies or does not end in time is a failure with the reason."""
    answer = run_isolated(
        "phasewise.profile.case:profile_plain",
        {
            "plan": msgspec.to_builtins(plan), "case": case, "root": str(root), "captures": str(captures),
            "machine": msgspec.to_builtins(machine),
        },
        environment=plan.environment, folder=root, timeout_s=max(TIMEOUT_S, plan.budget.timeout_s),
        memory_bytes=plan.case(case).memory_limit_bytes, tooled=True,
    )  # fmt: skip
    return (
        CaseProfile(case=case, failure=answer) if isinstance(answer, Failure) else msgspec.convert(answer, CaseProfile)
    )


def _profile_case(
    plan: VariantPlan,
    case: str,
    machine: Machine,
    root: Path,
    captures: Path,
    profile_one: ProfileCase,
) -> CaseProfile:
    found = profile_one(plan, case, root, captures, machine)
    watched = plan.nsight is None or case in plan.nsight
    if found.failure is not None or not watched or not {"nsys", "ncu"} & set(plan.profilers):
        return found
    kept: list[Capture] = []
    changes: dict[str, Any] = {}
    with make_scratch("profile") as folder:
        written = folder / "plan.json"
        write(plan, written)
        folder_of_case = captures / case
        if "nsys" in plan.profilers:
            capture, changes["timeline"] = (
                watch_system(
                    written, case, root, max(found.steps, 1), folder_of_case / f"{plan.variant}.nsys.sqlite.gz", plan.environment, plan.device
                )
                if machine.kind == "cuda" else (Capture(tool="nsys", skipped="no NVIDIA GPU"), None)
            )  # fmt: skip
            kept.append(capture)
        if "ncu" in plan.profilers:
            with lock_captures(plan.device):
                capture, changes["counters"] = (
                    count_kernels(
                        written, case, root, found.kernels, folder_of_case / f"{plan.variant}.ncu.csv", plan.environment,
                        most=KERNELS if choose_shape(plan, case) is None else FEW_KERNELS,
                    )
                    if machine.kind == "cuda" else (Capture(tool="ncu", skipped="no NVIDIA GPU"), ())
                )  # fmt: skip
            kept.append(capture)
    return msgspec.structs.replace(found, captures=(*found.captures, *kept), **changes)


def _refuse(plan: VariantPlan, gate: Validation | None, case: str) -> Failure | None:
    """Why this case is not profiled; None if it is."""
    if plan.skip or plan.untimed:
        return Failure(reason=Reason.NEEDS, message=plan.skip or plan.untimed or "")
    if plan.ranks > 1:
        message = f"a group of {plan.ranks} processes is not profiled; profile its parent, or one rank by hand"
        return Failure(reason=Reason.NEEDS, message=message)
    judged = find_case(gate, case)
    if judged is not None and judged.outcome is Outcome.FAIL:
        return Failure(reason=Reason.RED_GATE, message=f"skipped because validation failed: {judged.message}")
    if judged is not None and judged.outcome is Outcome.SKIPPED:
        return judged.failure or Failure(reason=Reason.NEEDS, message=judged.message or "skipped by validation")
    return None
