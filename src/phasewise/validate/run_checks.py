"""Run the checks that a variant has to pass: the workload's own, or the core's of that name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from phasewise.bench.case import BuiltCase, build_reference, copy_to_cpu, fill_defaults, synchronize
from phasewise.bench.functions import load_check, make_switches
from phasewise.model.parse import parse
from phasewise.model.program import CheckContext, Checked, Program
from phasewise.records.validate import CheckResult, Outcome
from phasewise.validate.checks import CORE_CHECKS
from phasewise.validate.trial import PROGRAM_ERRORS
from phasewise.workers.failure import describe_exception


def run_checks(case: BuiltCase, root: Path, clock: Callable[[], float] = time.perf_counter) -> tuple[CheckResult, ...]:
    """All planned checks of this case; programs that they build are closed after each."""
    results = []
    for planned in case.plan.checks:
        if planned.cases and case.planned.case not in planned.cases:
            continue
        check = load_check(case.functions, planned.name) or CORE_CHECKS.get(planned.name)
        if check is None:
            known = ", ".join(CORE_CHECKS)
            message = f"no check of this name in checks.py, and the core has only {known}; write it or correct the name"
            results.append(CheckResult(check=planned.name, outcome=Outcome.FAIL, message=message))
        else:
            results.append(run_check(planned.name, check, case, root, clock))
    return tuple(results)


def run_check(
    name: str, check: Callable[[CheckContext], Checked], case: BuiltCase, root: Path, clock: Callable[[], float]
) -> CheckResult:
    """One check; an error that it raises is a failure with type and message."""
    built: list[Program] = []
    started = clock()
    try:
        found = parse(check(make_context(case, root, built)), Checked, f"check {name!r}")
    except PROGRAM_ERRORS as error:
        message = describe_exception(error).message
        return CheckResult(check=name, outcome=Outcome.FAIL, message=message, seconds=clock() - started)
    finally:
        for program in built:
            program.close()
    return CheckResult(
        check=name,
        outcome=Outcome.PASS if found.passed else Outcome.FAIL,
        message=found.message,
        numbers=dict(found.numbers),
        chart=found.chart,
        seconds=clock() - started,
    )


def make_context(case: BuiltCase, root: Path, built: list[Program]) -> CheckContext:
    """What checks may use; every program that they build is added to `built`."""
    functions, name, device = case.functions, case.planned.case, case.device

    def inputs(seed: int) -> Mapping[str, torch.Tensor]:
        return functions.make_inputs(name, case.shape, seed)

    def build(**changed: Any) -> Program:
        switches = make_switches(functions.workload, {**case.planned.switches, **changed})
        program = functions.build(switches, inputs(case.plan.seed), name, case.shape, device)
        built.append(fill_defaults(program, device))
        return built[-1]

    def reference() -> Program:
        built.append(build_reference(case.plan, name, root, ring=1).program)
        return built[-1]

    def run(program: Program, batch: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        assert program.place is not None and program.outputs is not None, "fill_defaults has run"
        raw = program.step(program.place(batch))
        synchronize(program, device)
        return copy_to_cpu(program.outputs(raw))

    return CheckContext(
        build=build,
        reference=reference,
        run=run,
        inputs=inputs,
        switches=make_switches(functions.workload, case.planned.switches),
        case=name,
        shape=case.shape,
        device=device,
        rtol=case.plan.allowance.rtol,
        atol=case.plan.allowance.atol,
    )
