"""How much memory the guards on watched steps hold, and that one for which too little is left takes no other with it."""

from __future__ import annotations

import weakref
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from phasewise.bench.case import build_case
from phasewise.model.workload import Shape
from phasewise.records.validate import Outcome
from phasewise.validate import guard_poison, guards
from phasewise.validate.guards import LOOKS, name_of, run_guards
from phasewise.validate.trial import GUARD_STEPS
from plans import make_plan
from trials import make_trial

HERE = Path(__file__).parent
ROWS = 100_000
# of float32, four a row in the placed batch and one in the result
PLACED_BYTES, RESULT_BYTES = 16 * ROWS, 4 * ROWS
# beside tensors of the batch's size
SMALL_BYTES = 1000
NAMES = tuple(name_of(look.conclude) for look in LOOKS)
# these keep what the program has handed out until the last step: one must be sure that memory isn't given out again, one spoils it
KEEPERS = {"outputs-apart", "outputs-poisoned"}


def build(case_name="product"):
    return build_case(make_plan("gated.py", HERE, cases=(case_name,)), case_name, HERE, shape=Shape(rows=ROWS))


def measure_peak(looks, steps, monkeypatch, case_name="product"):
    """Bytes that torch has at once while `looks` go through that many steps, beside what it had before."""
    monkeypatch.setattr(guards, "LOOKS", looks)
    trial = make_trial(build(case_name), steps)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        found = guards._run_looks(trial)
    assert {guard.outcome for guard in found} == {Outcome.PASS}, found
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    assert events
    now = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak


@pytest.mark.parametrize("case_name", ["product", "resident"])
def test_of_a_step_only_what_the_program_handed_out_outlasts_it(case_name, monkeypatch):
    peaks = [measure_peak(LOOKS, steps, monkeypatch, case_name) for steps in (2, 3, 4)]
    for fewer, more in pairwise(peaks):
        assert abs(more - fewer - PLACED_BYTES - RESULT_BYTES) < SMALL_BYTES


@pytest.mark.parametrize("look", LOOKS, ids=NAMES)
def test_by_itself_a_guard_holds_one_step_unless_it_has_to_keep_more(look, monkeypatch):
    growth = measure_peak((look,), 4, monkeypatch) - measure_peak((look,), 3, monkeypatch)
    if name_of(look.conclude) in KEEPERS:
        assert PLACED_BYTES - SMALL_BYTES < growth < PLACED_BYTES + RESULT_BYTES + SMALL_BYTES
    else:
        assert abs(growth) < SMALL_BYTES


def test_only_the_guard_on_a_resident_batch_copies_it(monkeypatch):
    copies, reads = (
        [measure_peak((look,), 2, monkeypatch, case_name) for case_name in ("product", "resident")]
        for look in (LOOKS[0], LOOKS[4])
    )
    assert copies[1] - copies[0] >= PLACED_BYTES - SMALL_BYTES
    assert abs(reads[1] - reads[0]) < SMALL_BYTES


def with_room_for(results, trial):
    """The trial on a device that has memory for so many results at a time."""
    step, given = trial.case.program.step, []

    def limited(placed):
        if sum(one() is not None for one in given) >= results:
            raise torch.OutOfMemoryError("out of memory")
        raw = step(placed)
        given.append(weakref.ref(raw))
        return raw

    return replace(trial, case=replace(trial.case, program=replace(trial.case.program, step=limited)))


@pytest.mark.parametrize(
    ("results", "skipped"), [(3, set()), (2, {"outputs-poisoned"}), (1, {"outputs-poisoned"}), (0, set(NAMES))]
)
def test_where_the_steps_do_not_fit_those_guards_run_that_fit_by_themselves(results, skipped):
    found = guards._run_looks(with_room_for(results, make_trial(build(), GUARD_STEPS)))
    assert tuple(guard.guard for guard in found) == NAMES
    assert {guard.guard for guard in found if guard.outcome is not Outcome.PASS} == skipped
    assert {guard.message for guard in found} <= {"", "not enough device memory is left for this guard's copies"}


def test_a_guard_without_memory_for_its_copies_is_skipped_alone(monkeypatch):
    def refuse(tensors):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(guard_poison, "clone", refuse)
    found = run_guards(make_trial(build(), GUARD_STEPS))
    assert [guard.guard for guard in found if guard.outcome is Outcome.SKIPPED] == ["outputs-poisoned"]
    assert {guard.outcome for guard in found if guard.guard != "outputs-poisoned"} == {Outcome.PASS}


def test_a_guard_that_the_program_breaks_off_fails_by_itself():
    trial = make_trial(build(), GUARD_STEPS)

    def audit(batch, outputs, case, shape):
        raise ValueError("no peak is left")

    functions = replace(trial.case.functions, audit=audit)
    found = run_guards(replace(trial, case=replace(trial.case, functions=functions)))
    looks = {guard.guard: guard for guard in found if guard.guard in NAMES}
    broken = {name for name, guard in looks.items() if guard.outcome is Outcome.FAIL}
    # the last step is compared as well
    assert broken == {"repeated", "outputs-poisoned"}
    assert {looks[name].message.split(" (")[0] for name in broken} == {"the program raised ValueError: no peak is left"}
