"""The stage and `compare` with real processes, on tiny programs."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from measure.fakes import Clock, FakeArm, tools
from phasewise import environment
from phasewise.measure import compare, measure_variant, opening
from phasewise.measure.compare import name_function
from phasewise.measure.neighbours import Watch, watch_machine
from phasewise.measure.progress import Silent, Stream
from phasewise.measure.scale import ROUNDS, choose_steps, is_precise, measure_scale
from phasewise.model.ratios import estimate_speedup, step_times
from phasewise.records.errors import UserError
from phasewise.records.measure import Measurement, ScalePoint
from phasewise.records.plan import Budget, Kind, VariantPlan
from phasewise.records.validate import CaseValidation, Outcome, Validation
from phasewise.store import decode, digest, encode
from phasewise.workers import warmup
from phasewise.workers.arm import ArmProcesses, Launch
from phasewise.workers.warmup import Warmed
from programs import plan_program, write_program

FUNCTIONS = """
import torch

def make(n):
    return torch.ones(n)

def short(x):
    print("noise")
    return x.sum()

def long(x):
    for _ in range(50):
        x = x * 1.0
    return x.sum()

def broken(x):
    raise ValueError("no")
"""
QUICK = Budget(min_rounds=6, max_rounds=6, min_sets=1, max_sets=1, block_s=0.005, timeout_s=60.0)


def gate(variant: str) -> Validation:
    return Validation(
        workload="matrix", run="tiny-cpu", variant=variant, plan="", machine="", commit="", tier="strict",
        cases=(CaseValidation(case="only", outcome=Outcome.PASS, peak_memory_bytes=1),),
    )  # fmt: skip


def measure(folder: Path, plan: VariantPlan, *others: VariantPlan, gpu_memory_bytes: int = 0) -> Measurement:
    write_program(folder)
    plans = {item.variant: item for item in (plan, *others)}
    gates = {name: gate(name) for name in plans}
    rest = {"root": folder, "machine": "m", "commit": "c", "progress": Silent()}
    return measure_variant(plan, plans, gates, gpu_memory_bytes=gpu_memory_bytes, **rest)  # type: ignore[arg-type]


def child_of(parent: VariantPlan, mode: str) -> VariantPlan:
    plan = plan_program(mode)
    ancestors = (parent.variant,)
    case = msgspec.structs.replace(plan.cases[0], parent=parent.variant, ancestors=ancestors)
    return msgspec.structs.replace(plan, kind=Kind.PHASE, variant=f"01-{mode}", cases=(case,))


def test_a_phase_is_measured_beside_its_parent_and_the_record_survives_the_disk(tmp_path: Path) -> None:
    parent = plan_program("good")
    plan = child_of(parent, "other")
    record = measure(tmp_path, plan, parent)
    assert decode(encode(record), Measurement, "here") == record
    assert record.plan == digest(plan)
    (case,) = record.cases
    assert [arm.arm for arm in case.arms] == ["parent", "variant"]
    assert len(case.rounds) == 4 and all(len(taken.samples) == 2 for taken in case.rounds)
    variant = case.arms[1]
    assert variant.items == 8 and variant.outputs_held and len(variant.step_s) >= 5 and len(variant.place_s) == 10
    ratio = estimate_speedup(case, plan.budget)
    assert ratio is not None and 0.1 < ratio.estimate < 10


def test_processes_that_were_built_ahead_of_their_set_are_timed_as_any_other(tmp_path: Path) -> None:
    parent = plan_program("good")
    budget = msgspec.structs.replace(parent.budget, min_sets=2, max_sets=2)
    plan = msgspec.structs.replace(child_of(parent, "other"), budget=budget)
    (case,) = measure(tmp_path, plan, parent, gpu_memory_bytes=100).cases
    assert [taken.process_set for taken in case.rounds] == sorted(taken.process_set for taken in case.rounds)
    assert {taken.process_set for taken in case.rounds} == {0, 1}
    assert all(len(taken.samples) == 2 for taken in case.rounds)
    assert [(arm.failure, len(arm.build_s), arm.outputs_held) for arm in case.arms] == [(None, 2, True)] * 2


def test_only_the_first_process_of_what_is_measured_has_empty_compile_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    parent = plan_program("good")
    budget = msgspec.structs.replace(parent.budget, min_sets=2, max_sets=2)
    plan = msgspec.structs.replace(child_of(parent, "telling"), budget=budget)
    (case,) = measure(tmp_path, plan, parent).cases
    assert [arm.fresh_caches for arm in case.arms] == [False, True]
    first, second = (tmp_path / "caches.txt").read_text().splitlines()
    assert "phasewise-caches-" in first and second == "shared"
    # nothing of it is left
    assert not Path(first).parent.exists()


def test_one_start_with_empty_caches_a_variant_is_told(tmp_path: Path) -> None:
    plan = plan_program("good")
    second = msgspec.structs.replace(plan.cases[0], case="second")
    plan = msgspec.structs.replace(plan, cases=(*plan.cases, second))
    write_program(tmp_path)
    green = gate(plan.variant)
    both = tuple(msgspec.structs.replace(green.cases[0], case=case.case) for case in plan.cases)
    gates = {plan.variant: msgspec.structs.replace(green, cases=both)}
    record = measure_variant(
        plan, {plan.variant: plan}, gates, root=tmp_path, machine="m", commit="c", progress=Silent()
    )
    assert [(case.case, case.arms[0].fresh_caches, len(case.rounds)) for case in record.cases] == [
        ("only", True, 4),
        ("second", False, 4),
    ]


def test_a_variant_that_crashes_is_on_record_and_costs_itself_only(tmp_path: Path) -> None:
    parent = plan_program("good")
    record = measure(tmp_path, child_of(parent, "raises"), parent)
    parent_arm, variant = record.cases[0].arms
    assert parent_arm.failure is None
    assert variant.failure is not None and "third step is cursed" in variant.failure.message


def test_a_baseline_too_slow_for_its_shape_is_measured_at_smaller_ones(tmp_path: Path) -> None:
    plan = plan_program("good", baseline_at=({"n": 4}, {"n": 6}))
    # as few rounds as there may be
    plan = msgspec.structs.replace(plan, budget=msgspec.structs.replace(plan.budget, seconds=1e-3))
    (case,) = measure(tmp_path, plan).cases
    assert [(point.shape, point.items) for point in case.scale] == [({"n": 4}, 4.0), ({"n": 6}, 6.0)]
    turns = {len(point.wall_s) for point in case.scale}
    assert len(turns) == 1 and ROUNDS[0] <= turns.pop() <= ROUNDS[1]
    assert all(wall > 0 for point in case.scale for wall in point.wall_s)
    # a step of this program has as many operators at every shape
    small, large = case.scale
    assert small.operators == large.operators > 0 and small.elements < large.elements
    assert case.rounds == () and step_times(case, "variant") == []


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_shapes_take_turns_until_their_times_are_known(monkeypatch: pytest.MonkeyPatch, noise: float) -> None:
    clock = Clock()

    class Shaped(FakeArm):
        def count(self) -> tuple[int, int]:
            return 5, 10 * int(self.items)

    def start(target: Launch) -> Shaped:
        rows = target.to_open["arguments"]["shape"]["n"]
        return Shaped(clock, f"rows-{rows}", step_s=rows * 1e-3, noise=noise, items=rows)

    monkeypatch.setattr("phasewise.measure.scale.ArmProcesses", start)
    plan = plan_program("good", baseline_at=({"n": 4}, {"n": 6}))
    case = measure_scale(plan, plan.cases[0], Path(), tools(clock))
    turns = len(case.scale[0].wall_s)
    assert turns == ROUNDS[0] if noise == 0.0 else ROUNDS[0] < turns <= ROUNDS[1]
    assert [(point.items, len(point.wall_s), point.elements) for point in case.scale] == [
        (4, turns, 40),
        (6, turns, 60),
    ]
    # one after the other, and all are closed
    timed = [arm for arm, call, _ in clock.calls if call == "block"][-2 * turns :]
    assert timed == ["rows-4", "rows-6"] * turns and not clock.alive


def test_blocks_at_the_smaller_shapes_do_the_same_number_of_items() -> None:
    """A short block slips between two disturbances more often, and would look faster an item."""
    warmed = [Warmed(warmup_steps=1, step_s=0.25, block_steps=1), Warmed(warmup_steps=1, step_s=0.5, block_steps=1)]
    assert choose_steps(warmed, [1.0, 2.0]) == [2, 1]
    fast = [Warmed(warmup_steps=1, step_s=1e-3, block_steps=20), Warmed(warmup_steps=1, step_s=3e-3, block_steps=7)]
    assert choose_steps(fast, [100.0, 300.0]) == [21, 7]


def test_turns_end_when_the_ratio_is_known_whatever_it_is() -> None:
    def points(larger: float, wobble: float) -> list[ScalePoint]:
        noise = (1 - wobble, 1.0, 1 + wobble, 1.0, 1 - wobble, 1 + wobble)
        return [
            ScalePoint(shape={}, items=2.0, wall_s=tuple(2 * larger * w for w in noise)),
            ScalePoint(shape={}, items=1.0, wall_s=(1.0,) * len(noise)),
        ]

    assert is_precise(points(1.0, 0.01)) and is_precise(points(1.4, 0.01))
    assert not is_precise(points(1.0, 0.1))


def test_compare_tells_the_faster_function_and_reads_well(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(FUNCTIONS)
    found = compare(
        {"long": f"{file}:long", "short": f"{file}:short", "broken": f"{file}:broken"},
        setup=f"{file}:make",
        arguments={"n": 64},
        device="cpu",
        budget=QUICK,
    )
    ratio = found.ratios["short"]
    assert ratio is not None and ratio.low > 1.5
    assert found.ratios["broken"] is None
    text = str(found)
    assert "short: " in text and "times as fast as long" in text and "broken: crash, ValueError: no" in text


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_compare_warms_up_as_the_device_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    file, seen = tmp_path / "two.py", []

    def warm_up(driver: ArmProcesses, budget: Budget, *, device: str, **named: Any) -> Warmed:
        seen.append(device)
        return warmup.warm_up(driver, budget, device=device, **named)

    monkeypatch.setattr(opening, "warm_up", warm_up)
    monkeypatch.setattr(environment, "name_gpus", dict)
    file.write_text(FUNCTIONS)
    functions = {"long": f"{file}:long", "short": f"{file}:short"}
    # without a GPU it is a CPU, whoever asks
    compare(functions, setup=f"{file}:make", arguments={"n": 64}, device=device, budget=QUICK, progress=Silent())
    assert seen and set(seen) == {"cpu"}


def test_a_function_that_gives_something_else_gets_no_ratio(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(
        "def right(x):\n    return {'sum': x.sum(), 'n': 3}\ndef wrong(x):\n    return {'sum': x.sum() * 1.01, 'n': 3}\n"
        "def other(x):\n    return {'sum': x.sum()}\ndef same(x):\n    return {'sum': x.flip(0).sum(), 'n': 3}\n"
        "import torch\ndef make():\n    return torch.rand(64)\n"
    )
    names = ("right", "wrong", "other", "same")
    said = io.StringIO()
    found = compare(
        {name: f"{file}:{name}" for name in names}, setup=f"{file}:make", device="cpu", budget=QUICK, progress=Stream(said),
    )  # fmt: skip
    assert (
        set(found.differences) == {"wrong", "other"}
        and found.ratios["wrong"] is None
        and found.ratios["same"] is not None
    )
    text = str(found)
    assert (
        "and its result is not that of right: '/sum': off by " in text
        and "it gives /sum, the first gives /sum, /n" in text
    )
    assert "one call of each" in said.getvalue()
    free = compare(
        {name: f"{file}:{name}" for name in names[:2]},
        setup=f"{file}:make",
        device="cpu",
        budget=QUICK,
        tier=None,
        progress=Silent(),
    )
    assert not free.differences and free.ratios["wrong"] is not None


def test_a_script_whose_workers_would_call_it_again_is_refused(tmp_path: Path) -> None:
    """Without the refusal each worker starts six more."""
    file = tmp_path / "script.py"
    file.write_text(
        "from phasewise.measure import compare\ndef one():\n    return 1\ndef two():\n    return 1\n"
        "print(compare({'one': one, 'two': two}, device='cpu'))\n"
    )
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert 'put the call under if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_a_function_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(FUNCTIONS)
    with pytest.raises(UserError, match="has no function 'absent'"):
        compare({"a": f"{file}:absent", "b": f"{file}:short"}, budget=QUICK, device="cpu")


def test_functions_that_no_other_process_can_import_are_refused() -> None:
    def inner() -> None: ...

    for function in (lambda: None, inner, [].append):
        with pytest.raises(UserError, match="top level of a module"):
            name_function(function)
    with pytest.raises(UserError, match="names no function"):
        name_function("module")
    with pytest.raises(UserError, match="two or more"):
        compare({"a": "m:f"})
    assert name_function(compare) == "phasewise.measure.compare:compare"


def test_load_of_others_leaves_out_our_own_and_waits_for_a_measurable_time() -> None:
    times = iter([0.0, 0.05, 100.0])
    watch = Watch(gpu=None, now=lambda: next(times))
    assert watch.look(()).load is None
    assert watch.look(()).load is None
    load = watch.look(()).load
    assert load is not None and 0.0 <= load < 0.5
    assert watch_machine("cpu").gpu is None


def test_progress_is_sparse_where_lines_cannot_be_rewritten() -> None:
    times = iter([0.0, 1.0, 12.0, 12.0])
    stream = io.StringIO()
    progress = Stream(stream, now=lambda: next(times))
    for line in ("one", "two", "three"):
        progress.update(line)
    progress.done("end")
    assert stream.getvalue().splitlines() == ["one", "three", "end"]
