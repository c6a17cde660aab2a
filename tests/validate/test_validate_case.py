"""One case through the gate: what it is compared with, and how errors, guards and checks become an outcome."""

from __future__ import annotations

from pathlib import Path

from phasewise.judge.sample import choose_items
from phasewise.records.plan import Kind
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Reason
from phasewise.validate.case import validate_case
from plans import make_baseline, make_plan

HERE = Path(__file__).parent


def size_of(case):
    return "full" if case == "sampled" else "tiny"


def plan_of(case="product", **switches):
    return make_plan("gated.py", HERE, switches=switches, cases=(case,), size=size_of(case))


def peer_of(name):
    return make_plan("gated.py", HERE, kind=Kind.PEER, variant=f"peer-{name}", peer=name, cases=("product",))


def guard_of(record, name):
    return next(guard for guard in record.guards if guard.guard == name)


def test_an_honest_variant_passes_with_an_error_for_every_step():
    record = validate_case(plan_of(), "product", HERE)
    assert record.outcome is Outcome.PASS
    assert [(error.kind, error.name, error.step) for error in record.errors] == [
        ("output", "output", n) for n in range(4)
    ]
    assert all(0 < error.worst < 1 for error in record.errors)
    assert record.against == "reference"
    assert record.seconds > 0


def test_errors_are_told_in_units_of_the_baselines():
    baseline = validate_case(make_baseline("gated.py", HERE, cases=("product",)), "product", HERE)
    assert all(error.times_baseline is None for error in baseline.errors)
    record = validate_case(plan_of(), "product", HERE, baseline=baseline)
    assert all(0 < error.times_baseline <= 1 for error in record.errors)


def test_a_fallback_is_right_and_does_not_pass():
    record = validate_case(plan_of(fault="fallback"), "product", HERE)
    assert record.outcome is Outcome.FALLBACK
    assert record.fallbacks == ("product: no Triton here",)
    assert "no Triton here" in record.message


def test_what_a_build_does_not_support_is_skipped_with_its_reason():
    record = validate_case(plan_of(fault="unsupported"), "product", HERE)
    assert record.outcome is Outcome.SKIPPED
    assert record.failure.reason is Reason.UNSUPPORTED
    assert record.message == "needs a device with more fingers"


def test_an_error_of_the_build_is_a_crash_with_its_words():
    record = validate_case(plan_of(fault="build"), "product", HERE)
    assert record.outcome is Outcome.FAIL and record.failure.reason is Reason.CRASH
    assert record.message == "RuntimeError: the build broke in the middle (gated.py:66)"


def test_an_error_in_a_later_step_is_a_crash():
    record = validate_case(plan_of(fault="raises later"), "product", HERE)
    assert record.outcome is Outcome.FAIL
    assert record.message == "IndexError: row 9 of 8 (gated.py:80)"


def test_a_step_may_consume_a_placed_batch_but_not_a_resident_one():
    assert validate_case(plan_of(fault="eats"), "product", HERE).outcome is Outcome.PASS
    record = validate_case(plan_of("resident", fault="eats"), "resident", HERE)
    assert guard_of(record, "inputs-unchanged").outcome is Outcome.FAIL


def test_a_sample_is_held_against_the_reference_and_the_rest_is_said_to_be_open():
    record = validate_case(plan_of("sampled"), "sampled", HERE)
    assert record.outcome is Outcome.PASS, record.message
    assert record.sampled_items == 300
    assert record.errors[0].elements == 300
    assert guard_of(record, "beyond-the-sample").outcome is Outcome.SKIPPED


def is_sampled(row):
    case = plan_of("sampled").cases[0]
    return row in choose_items(case.sample_items, case.shape["rows"], seed=0)


def test_a_sampled_row_that_is_wrong_fails():
    row = next(row for row in range(40) if is_sampled(row))
    assert validate_case(plan_of("sampled", row=row), "sampled", HERE).outcome is Outcome.FAIL


def test_a_row_outside_the_sample_is_caught_by_the_validated_ancestor():
    missed = next(row for row in range(40) if not is_sampled(row))
    assert validate_case(plan_of("sampled", row=missed), "sampled", HERE).outcome is Outcome.PASS
    ancestor = make_baseline("gated.py", HERE, cases=("sampled",), size="full")
    record = validate_case(plan_of("sampled", row=missed), "sampled", HERE, ancestor=ancestor)
    assert record.against == "00-baseline"
    assert "against 00-baseline" in record.message
    assert f"at [{missed}]" in record.message
    assert validate_case(plan_of("sampled"), "sampled", HERE, ancestor=ancestor).outcome is Outcome.PASS


def test_a_peer_is_held_against_the_reference():
    assert validate_case(peer_of("plain"), "product", HERE).outcome is Outcome.PASS


def test_a_peer_of_another_problem_is_held_against_its_own_reference():
    assert validate_case(peer_of("half"), "product", HERE).outcome is Outcome.PASS


def test_a_peer_of_another_problem_without_a_reference_is_skipped_with_the_sentence():
    record = validate_case(peer_of("other"), "product", HERE)
    assert record.outcome is Outcome.SKIPPED
    assert "it solves the problem without w" in record.message
    # nothing failed: it is timed all the same
    assert record.failure is None


def test_a_peer_whose_package_is_missing_is_skipped():
    record = validate_case(peer_of("absent"), "product", HERE)
    assert record.outcome is Outcome.SKIPPED
    assert "pip install absent" in record.message and record.failure is not None
