"""All records of a run: read when asked for, once, from disk or from memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phasewise import store
from phasewise.cli.project import open_run
from phasewise.model.layout import Layout
from phasewise.records.base import find_case
from phasewise.records.errors import PlanError, RecordError
from phasewise.records.plan import CapturePlan, RunPlan, VariantPlan
from phasewise.records.profile import Profile
from phasewise.records.validate import CaseValidation, Outcome, Validation
from phasewise.report.holes import list_holes
from phasewise.run import Run
from report.make import CASES, RUN, STACK, WORKLOAD, make_records


@pytest.fixture
def there(tmp_path: Path) -> Run:
    """A synthetic run on disk; its gates are of other plans than those beside them."""
    layout = Layout(tmp_path)
    memory, disk = make_records(), Run(WORKLOAD, RUN, layout=layout)
    for record in (memory.plan, *memory.known):
        store.write(
            record, Run(WORKLOAD, RUN, [memory.plan], layout=layout).path(type(record), getattr(record, "variant", ""))
        )
    return disk


def test_in_memory_and_on_disk_it_says_the_same(there: Run) -> None:
    memory = make_records()
    there.forgiving = True
    assert list_holes(there) == ()
    for held in memory.variants:
        for case in CASES:
            assert there[held.name].gate(case) == held.gate(case)
            assert there[held.name].profiled(case) == held.profiled(case)
    assert [held.name for held in there.variants] == [held.name for held in memory.variants]
    assert (there.machine, there.results) == (memory.machine, memory.results)


def test_a_record_is_read_once(there: Run) -> None:
    before = there[STACK].profile
    assert before is not None
    there.path(Profile, STACK).unlink()
    assert there[STACK].profile is before


def test_a_gate_of_another_plan_is_left_out_where_it_decides_and_shown_on_pages(
    there: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert there[STACK].gate(CASES[0]) is None
    assert f"{STACK}/validate.json: made from another plan" in capsys.readouterr().err
    assert Run(WORKLOAD, RUN, layout=there.layout, forgiving=True)[STACK].gate(CASES[0]) is not None


def test_what_cannot_be_read_is_an_error_where_it_decides_and_a_hole_on_pages(there: Run) -> None:
    there.path(Profile, STACK).write_bytes(b"{")
    with pytest.raises(RecordError, match="not a whole JSON record"):
        there.find(Profile, STACK)
    forgiving = Run(WORKLOAD, RUN, layout=there.layout, forgiving=True)
    (hole,) = list_holes(forgiving)
    assert hole.startswith(f"profiles/records/{WORKLOAD}/{RUN}/{STACK}/profile.json: not a whole JSON record")
    assert forgiving[STACK].profile is None


@pytest.mark.parametrize("name", ["", "../00-baseline", "/etc", "00-baseline/../00-baseline"])
def test_a_name_that_is_no_safe_folder_is_never_a_path(there: Run, name: str) -> None:
    assert there.find(VariantPlan, name) is None


def test_what_is_captured_is_read_with_the_plan(there: Run) -> None:
    captures = CapturePlan(profilers=("torch", "nsys"), exporters=("onnx",), exported=("forward",))
    with pytest.raises(RecordError, match=r"capture\.plan\.json"):
        _ = there[STACK].full_plan
    store.write(captures, there.path(CapturePlan, STACK))
    plan = Run(WORKLOAD, RUN, layout=there.layout)[STACK].full_plan
    assert (plan.profilers, plan.exporters, plan.exported) == (
        captures.profilers,
        captures.exporters,
        captures.exported,
    )


def test_an_unknown_run_names_those_that_are_planned(there: Run) -> None:
    assert there.layout is not None
    with pytest.raises(PlanError, match=f"choose among {WORKLOAD}/{RUN}, or call `phasewise plan`"):
        open_run(there.layout, WORKLOAD, "tiny-cpu")
    assert Run("nothing", "full-h100").plan == RunPlan(
        workload="nothing", source="", run="full-h100", size="", device="h100", summary="", tier="", cases=(), parts=(), phases=(),
        variants=(), stack={},
    )  # fmt: skip


def test_a_later_record_takes_the_place_of_an_earlier_one() -> None:
    run = make_records()
    gate = run.need(Validation, STACK)
    run.add(msgspec.structs.replace(gate, cases=(CaseValidation(case=CASES[0], outcome=Outcome.FAIL),)))
    found = run[STACK].gate(CASES[0])
    assert found is not None and found.outcome is Outcome.FAIL
    assert run[STACK].gate(CASES[1]) is None and find_case(None, CASES[0]) is None
