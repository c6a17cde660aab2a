"""Checks of a workload and of the core: run with what they need, and never able to take the gate down."""

from __future__ import annotations

import gc
import mmap
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch

from phasewise.bench.case import build_case, fill_defaults
from phasewise.model.check import CORE_CHECKS as NAMES
from phasewise.model.program import Program
from phasewise.records.plan import PlannedCheck
from phasewise.records.validate import Outcome
from phasewise.validate.checks import CORE_CHECKS, MEMORY_STEPS
from phasewise.validate.run_checks import make_context, run_checks
from plans import make_plan

HERE = Path(__file__).parent
CHEATS = HERE.parent / "cheats"


def check(name, source="gated.py", root=HERE, case="product", **switches):
    plan = make_plan(source, root, switches=switches, cases=(case,), checks=(name,))
    opened = build_case(plan, case, root, ring=1)
    (found,) = run_checks(opened, root, clock=iter(range(10)).__next__)
    return found


def test_a_check_gets_programs_inputs_and_the_reference_and_returns_numbers():
    found = check("drifts-little")
    assert found.outcome is Outcome.PASS
    assert found.numbers["drift"].unit == "eV"
    assert 0 < found.numbers["drift"].value < 1e-5
    assert found.seconds == 1


def test_a_check_builds_neighbours_of_the_variant():
    found = check("finds-a-fault")
    assert (found.outcome, found.message) == (Outcome.FAIL, "rows differ")


def test_a_missing_check_fails_with_a_sentence():
    found = check("no-such-thing")
    assert found.outcome is Outcome.FAIL
    assert "no check of this name in checks.py" in found.message


def test_a_check_that_raises_fails_with_type_and_message():
    assert check("breaks").message.startswith("KeyError: 'nothing' (gated.py:")
    assert "a phasewise.Checked is needed" in check("says-nothing").message


def test_checks_of_other_cases_are_left_alone():
    plan = make_plan("gated.py", HERE, cases=("product", "resident"))

    plan = msgspec.structs.replace(plan, checks=(PlannedCheck(name="breaks", cases=("resident",)),))
    assert run_checks(build_case(plan, "product", HERE, ring=1), HERE) == ()


def test_the_names_known_at_planning_are_those_of_the_core():
    assert sorted(CORE_CHECKS) == sorted(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "memory-flat"])
def test_an_honest_training_program_passes_the_cores_checks(name):
    found = check(name, "every_other_step.py", CHEATS, "main")
    assert found.outcome is Outcome.PASS, found.message


def test_a_program_that_ignores_load_cannot_resume():
    assert check("resume", "ignored_load.py", CHEATS, "main", cheat=True).outcome is Outcome.FAIL


def test_a_program_that_ignores_load_differs_in_its_second_call():
    assert check("second-call", "ignored_load.py", CHEATS, "main", cheat=True).outcome is Outcome.FAIL


def test_noise_is_not_bitwise_repeatable():
    found = check("bitwise-repeatable", fault="noise")
    assert found.outcome is Outcome.FAIL
    assert 0 < found.numbers["largest_difference"].value < 1e-3


def test_non_finite_outputs_are_counted_with_their_seed():
    found = check("finite", "swallowed_nan.py", CHEATS, "main")
    assert found.outcome is Outcome.FAIL
    assert "for seed 0" in found.message


def memory_of(step):
    plan = make_plan("gated.py", HERE, cases=("product",))
    opened = build_case(plan, "product", HERE, ring=1)
    context = make_context(opened, HERE, [])
    program = fill_defaults(Program(step=step), torch.device("cpu"))
    # the check collects garbage after every step: not that of all tests before this one
    gc.freeze()
    try:
        return CORE_CHECKS["memory-flat"](replace(context, build=lambda: program))
    finally:
        gc.unfreeze()


def test_memory_that_stays_is_flat():
    found = memory_of(lambda placed: placed["x"] * 2)
    assert found.passed, found.message
    assert len(found.chart.series[0].x) == MEMORY_STEPS


def test_memory_that_grows_is_found_with_its_rate():
    kept = []

    def leak(placed):
        # pages of its own: malloc may hand out what an earlier test gave back, and nothing grows
        kept.append(mmap.mmap(-1, 1 << 20))
        kept[-1].write(bytes(1 << 20))
        return placed["x"] * 2

    found = memory_of(leak)
    assert not found.passed
    assert found.numbers["growth_per_step"].value == pytest.approx(1 << 20, rel=0.3)
