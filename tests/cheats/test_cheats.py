"""Every program that cheats is refused, by the guard or the error that is meant for it; its honest twin passes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phasewise.records.plan import Allowance
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.validate.case import validate_case
from plans import make_baseline, make_plan

HERE = Path(__file__).parent
# lets TF32 and float16 through, so that only the baseline's own error can tell
RELAXED = Allowance(rtol=2e-2, atol=2e-3, times_baseline=64)

# module -> (kind of error, or guard, that has to catch it; a part of its sentence)
CHEATS = {
    "all_zeros": ("output", "values are zero"),
    "constant_output": ("output", "values are the same"),
    "stale_output": ("fresh-inputs", "the same in steps 0 and 1"),
    "cached_by_identity": ("same-batch-memory", "cached by identity"),
    "cached_by_address": ("same-placed-memory", "cached by address"),
    "cached_by_content": ("outputs-poisoned", "kept, not computed; return a copy"),
    "mutated_input": ("inputs-unchanged", "changed the canonical batch in x"),
    "background_thread": ("outputs-waited-for", "threads are not waited for"),
    "unrepeatable_reading": ("outputs-waited-for", "does not repeat its bits"),
    "half_precision": ("output", "times the baseline's own"),
    "tf32_rounding": ("output", "times the baseline's own"),
    "every_other_step": ("state-moves", "work is left out"),
    "frozen_state": ("state-moves", "goes 0.00 of the reference's way"),
    "wrong_gradients": ("gradient", "what the tier allows"),
    "ignored_load": ("state-restored", "not what `load` was given"),
    "aliased_input": ("outputs-apart", "shares memory with the input"),
    "unwritten_tail": ("memory-poisoned", "never written"),
    "unwritten_workspace": ("memory-poisoned", "never written"),
    "wrong_after_many_steps": ("later-steps", "more steps"),
    "one_wrong_element": ("output", "at [3, 2] it is off"),
    "draws_random_numbers": ("no-random-numbers", "torch's generator"),
    "draws_in_place": ("no-random-numbers", "torch's generator"),
    "swallowed_nan": ("output", "not finite where the reference is, or the reverse"),
    "replaced_clock": ("clock-intact", "time.perf_counter"),
    "missing_output": ("output", "it is missing"),
}


def hold(cheat: str, *, device: str = "cpu") -> tuple[CaseValidation, CaseValidation]:
    """The honest baseline's record, and the cheat's."""
    source = f"{cheat}.py"
    changes = (
        {"device": device, "allowance": RELAXED} if cheat in ("half_precision", "tf32_rounding") else {"device": device}
    )
    honest = validate_case(make_baseline(source, HERE, **changes), "main", HERE)
    plan = make_plan(source, HERE, switches={"cheat": True}, **changes)
    return honest, validate_case(plan, "main", HERE, baseline=honest)


def findings(record: CaseValidation) -> dict[str, list[str]]:
    """Sentences of everything that failed, by kind of error or by guard."""
    found: dict[str, list[str]] = {}
    for error in record.errors:
        if error.outcome is Outcome.FAIL:
            found.setdefault(error.kind, []).append(error.message)
    for guard in record.guards:
        if guard.outcome is Outcome.FAIL:
            found.setdefault(guard.guard, []).append(guard.message)
    return found


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_refused_by_what_is_meant_for_it_and_its_honest_twin_passes(cheat):
    honest, caught = hold(cheat)
    assert honest.outcome is Outcome.PASS, honest.message
    assert caught.outcome is Outcome.FAIL
    assert caught.message
    catcher, sentence = CHEATS[cheat]
    found = findings(caught)
    assert any(sentence in message for message in found.get(catcher, [])), found


@pytest.mark.gpu
def test_a_stream_that_nobody_waits_for_is_noticed():
    honest, caught = hold("side_stream", device="cuda")
    assert honest.outcome is Outcome.PASS, honest.message
    assert "outputs-waited-for" in findings(caught)


def test_a_record_of_a_cheat_survives_its_way_to_disk():
    _, caught = hold("swallowed_nan")
    assert msgspec.json.decode(msgspec.json.encode(caught), type=CaseValidation) == caught
