"""The stage: one process a case, whose death is a record; the sanitizer's verdict is one more guard."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import msgspec
import pytest

from phasewise.records.validate import CaseValidation, Guard, Outcome, Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.store import decode, digest, encode
from phasewise.validate import validate_variant, variant
from phasewise.validate.outcomes import failed_case
from phasewise.workers import side_by_side as together
from phasewise.workers.group import rank_environments
from plans import make_baseline, make_plan

HERE = Path(__file__).parent


def size_of(case):
    return "full" if case == "sampled" else "tiny"


def plan_of(case="product", **changes):
    return make_plan("gated.py", HERE, cases=(case,), size=size_of(case), **changes)


def stage(plan, validations=None, plans=None, one=None, lock=None):
    return validate_variant(
        plan, plans or {}, validations or {}, root=HERE, machine="m", commit="c", lock=lock, validate_one=one
    )


def passed(plan, case, root, baseline, ancestor):
    return CaseValidation(
        case=case, outcome=Outcome.PASS, message=f"{baseline and baseline.message} {ancestor and ancestor.variant}"
    )


def record_of(plan, outcome=Outcome.PASS):
    return stage(plan, one=lambda plan, case, *_: CaseValidation(case=case, outcome=outcome, message=plan.variant))


def test_a_record_names_what_it_was_made_from():
    plan = plan_of()
    record = stage(plan, one=passed)
    assert (record.variant, record.plan, record.machine, record.commit, record.tier) == (
        "01-test", digest(plan), "m", "c", "moderate",
    )  # fmt: skip


def test_a_planned_skip_starts_no_process():
    record = stage(plan_of(skip="needs 4 GPUs"), one=None)
    assert record.cases[0].outcome is Outcome.SKIPPED
    assert record.cases[0].failure == Failure(reason=Reason.NEEDS, message="needs 4 GPUs")


def test_cases_run_side_by_side_on_a_gpu_and_one_that_was_too_tight_runs_again_alone(monkeypatch):
    monkeypatch.setattr(together, "count_cores", lambda: 8)
    cases = ("product", "resident")
    plan = msgspec.structs.replace(make_plan("gated.py", HERE, cases=cases), device="h200")
    both, tries = threading.Barrier(2, timeout=10), []

    def one(plan, case, *_):
        tries.append(case)
        if len(tries) <= len(cases):
            both.wait()
            if case == "resident":
                return failed_case(case, Failure(reason=Reason.OUT_OF_MEMORY, message="CUDA out of memory"))
        return passed(plan, case, None, None, None)

    record = stage(plan, one=one)
    assert [found.outcome for found in record.cases] == [Outcome.PASS, Outcome.PASS]
    assert sorted(tries) == ["product", "resident", "resident"]


def test_a_gate_that_was_too_tight_beside_those_of_other_variants_has_the_gpu_for_itself():
    plan = msgspec.structs.replace(plan_of(), device="h200")
    held = []

    @contextlib.contextmanager
    def hold(*, shared):
        held.append(shared)
        yield
        held.append(None)

    def one(plan, case, *_):
        if held[-1]:
            return failed_case(case, Failure(reason=Reason.OUT_OF_MEMORY, message="CUDA out of memory"))
        return passed(plan, case, None, None, None)

    assert stage(plan, one=one, lock=hold).cases[0].outcome is Outcome.PASS
    # let go in between: two that wait for each other to leave would wait for ever
    assert held == [True, None, False, None]


def test_a_case_that_ran_out_of_a_cap_of_its_own_is_not_run_again(monkeypatch):
    monkeypatch.setattr(together, "count_cores", lambda: 8)
    plan = msgspec.structs.replace(make_plan("gated.py", HERE, cases=("product", "resident")), device="h200")
    capped = tuple(msgspec.structs.replace(planned, memory_limit_bytes=1 << 30) for planned in plan.cases)
    tries = []

    def one(plan, case, *_):
        tries.append(case)
        return failed_case(case, Failure(reason=Reason.OUT_OF_MEMORY, message="CUDA out of memory"))

    record = stage(msgspec.structs.replace(plan, cases=capped), one=one)
    assert [found.outcome for found in record.cases] == [Outcome.FAIL, Outcome.FAIL]
    assert sorted(tries) == ["product", "resident"]


def test_the_baselines_record_is_the_yardstick_of_the_others():
    baseline = make_baseline("gated.py", HERE, cases=("product",))
    record = stage(plan_of(), {"00-baseline": record_of(baseline)}, {"00-baseline": baseline}, passed)
    assert record.cases[0].message == "00-baseline None"


@pytest.mark.parametrize("too_slow", [False, True])
@pytest.mark.parametrize(
    ("outcome", "chosen"), [(Outcome.PASS, "01-first"), (Outcome.FALLBACK, "01-first"), (Outcome.FAIL, "02-second")]
)
def test_a_sampled_case_is_compared_with_the_baseline_else_with_the_first_that_passed(outcome, chosen, too_slow):
    baseline = make_baseline("gated.py", HERE, cases=("sampled",), size="full")
    if too_slow:
        scaled = msgspec.structs.replace(baseline.cases[0], baseline_at=({"rows": 10}, {"rows": 20}))
        baseline = msgspec.structs.replace(baseline, cases=(scaled,))
    first, second = (plan_of("sampled", variant=name) for name in ("01-first", "02-second"))
    plan = plan_of("sampled", variant="03-third", ancestors=("02-second", "01-first", "00-baseline"))
    plans = {"00-baseline": baseline, "01-first": first, "02-second": second}
    known = {name: record_of(one) for name, one in plans.items()} | {"01-first": record_of(first, outcome)}
    record = stage(plan, known, plans, passed)
    assert record.cases[0].message.endswith(chosen if too_slow else "00-baseline")


def test_a_baseline_too_slow_for_its_shape_is_validated_at_a_smaller_one_and_follows_nobody():
    asked = []

    def one(plan, case, root, baseline, ancestor):
        asked.append((plan.cases[0].shape, plan.cases[0].sample_items, ancestor))
        return passed(plan, case, root, baseline, ancestor)

    baseline = make_baseline("gated.py", HERE, cases=("sampled",), size="full")
    case = msgspec.structs.replace(baseline.cases[0], baseline_at=({"rows": 10}, {"rows": 20}))
    baseline = msgspec.structs.replace(baseline, cases=(case,))
    stage(baseline, one=one)
    stage(plan_of("sampled"), {"00-baseline": record_of(baseline)}, {"00-baseline": baseline}, one)
    assert asked == [({"rows": 20}, None, None), ({"rows": 1000}, 300, None)]


def test_a_dead_process_is_a_failed_record_with_the_reason():
    record = stage(plan_of(switches={"fault": "killed"}))
    found = record.cases[0]
    assert found.outcome is Outcome.FAIL
    assert found.failure.reason is Reason.CRASH
    assert "SIGSEGV" in found.message


def test_a_case_is_validated_in_its_own_process_and_survives_its_way_to_disk():
    baseline = make_baseline("gated.py", HERE, cases=("sampled",), size="full")
    known = {"00-baseline": record_of(baseline)}
    record = stage(plan_of("sampled"), known, {"00-baseline": baseline})
    found = record.cases[0]
    assert found.outcome is Outcome.PASS, found.message
    assert found.against == "00-baseline"
    assert decode(encode(record), Validation, "here") == record


def test_what_a_program_does_not_support_is_skipped_and_the_rest_failed():
    assert failed_case("c", Failure(reason=Reason.UNSUPPORTED, message="no")).outcome is Outcome.SKIPPED
    assert failed_case("c", Failure(reason=Reason.OUT_OF_MEMORY, message="big")).outcome is Outcome.FAIL


def test_the_sanitizers_finding_turns_the_gate_red(monkeypatch):
    bad = Guard(guard="sanitizer-racecheck", outcome=Outcome.FAIL, message="a race")
    monkeypatch.setattr(variant, "run_sanitizer", lambda plan, case, root: (bad,))
    plan = msgspec.structs.replace(plan_of(), profilers=("torch", "sanitizer"), device="h200")
    found = stage(plan, one=passed).cases[0]
    assert found.outcome is Outcome.FAIL
    assert found.message == "guard sanitizer-racecheck: a race"
    assert stage(msgspec.structs.replace(plan, profilers=("torch",)), one=passed).cases[0].outcome is Outcome.PASS


def test_every_rank_of_a_group_is_told_who_it_is():
    first, second = rank_environments(2)
    assert first == {
        "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": second["MASTER_PORT"], "RANK": "0", "LOCAL_RANK": "0",
    }  # fmt: skip
    assert second["RANK"] == "1" and int(first["MASTER_PORT"]) > 0
    assert rank_environments(1) == [{}]
