import threading
import time
from contextlib import contextmanager

import msgspec
from toy import toy_machine, toy_plan, write_toy

from phasewise.profile import profile_variant
from phasewise.records.plan import PlannedCase
from phasewise.records.profile import Capture, CaseProfile, Kernel, Profile
from phasewise.records.validate import CaseValidation, Outcome, Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.store import decode, encode
from phasewise.workers.lock import lock_captures


def run(folder, plan, gate=None, profile_one=None, machine=None, **places):
    return profile_variant(
        plan,
        gate,
        machine=machine or toy_machine(),
        root=folder,
        captures=folder / "captures",
        commit="abc",
        profile_one=profile_one,
        **places,
    )


def gate_of(outcome, message=""):
    return Validation(
        workload="toy", run="tiny-cpu", variant="00-baseline", plan="", machine="", commit="", tier="strict",
        cases=(CaseValidation(case="one", outcome=outcome, message=message),),
    )  # fmt: skip


def never(*_):
    raise AssertionError("must not be profiled")


def test_a_variant_is_profiled_in_a_process_of_its_own_and_its_record_survives_the_disk(tmp_path):
    write_toy(tmp_path)
    found = run(tmp_path, toy_plan(tmp_path, profilers=("torch", "ncu", "nsys")), gate_of(Outcome.PASS))
    (case,) = found.cases
    assert case.failure is None
    assert case.seconds > case.breakdown.wall_s > 0
    assert [(capture.tool, capture.skipped) for capture in case.captures[1:]] == [
        ("nsys", "no NVIDIA GPU"),
        ("ncu", "no NVIDIA GPU"),
    ]
    assert decode(encode(found), Profile, "here") == found


def test_a_program_that_dies_is_a_failure_of_its_case_with_the_reason(tmp_path):
    write_toy(tmp_path)
    (case,) = run(tmp_path, toy_plan(tmp_path, switches={"crash": True})).cases
    assert case.failure.reason is Reason.CRASH
    assert "planted failure" in case.failure.message


def test_what_cannot_be_timed_here_or_failed_the_gate_is_not_profiled(tmp_path):
    for plan, gate, reason, words in (
        (toy_plan(tmp_path, untimed="needs an NVIDIA GPU"), None, Reason.NEEDS, "NVIDIA"),
        (toy_plan(tmp_path, skip="needs triton"), None, Reason.NEEDS, "triton"),
        (toy_plan(tmp_path, ranks=4), None, Reason.NEEDS, "4 processes"),
        (toy_plan(tmp_path), gate_of(Outcome.FAIL, "energy is off"), Reason.RED_GATE, "energy is off"),
        (toy_plan(tmp_path), gate_of(Outcome.SKIPPED, "too large"), Reason.NEEDS, "too large"),
    ):
        (case,) = run(tmp_path, plan, gate, never).cases
        assert case.failure.reason is reason
        assert words in case.failure.message


def test_a_variant_without_profilers_has_an_empty_record(tmp_path):
    assert run(tmp_path, toy_plan(tmp_path, profilers=()), None, never).cases == ()


def test_missing_nsight_tools_are_skipped_with_a_cure(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("phasewise.profile.nsight_compute.find_tool", lambda name: None)
    monkeypatch.setattr("phasewise.profile.nsight_systems.find_tool", lambda name: None)

    def one(*_):
        return CaseProfile(
            case="one", kernels=(Kernel(name="k", calls=1, seconds=1e-3, category="gemm", grid=(1, 1, 1)),)
        )

    plan = toy_plan(tmp_path, device="h200", profilers=("torch", "nsys", "ncu"))
    (case,) = run(tmp_path, plan, None, one, toy_machine("h200")).cases
    assert [(capture.tool, bool(capture.skipped), bool(capture.cure)) for capture in case.captures] == [
        ("nsys", True, True), ("ncu", True, True)
    ]  # fmt: skip
    assert case.counters == () and case.timeline is None


def test_nsight_steps_as_often_as_was_traced_and_counts_one_kernel_of_a_baseline_at_a_smaller_shape(
    tmp_path, monkeypatch
):
    asked = []

    def watch(plan, case, root, steps, target, environment, turn):
        asked.append(("steps", steps))
        return Capture(tool="nsys", skipped="a stand-in"), None

    def count(plan, case, root, kernels, target, environment, *, most):
        asked.append(("kernels", most))
        return Capture(tool="ncu", skipped="a stand-in"), ()

    monkeypatch.setattr("phasewise.profile.variant.watch_system", watch)
    monkeypatch.setattr("phasewise.profile.variant.count_kernels", count)
    smaller = PlannedCase(case="one", shape={"width": 48}, switches={}, baseline_at=({"width": 8}, {"width": 16}))
    tools = {"device": "h200", "profilers": ("torch", "nsys", "ncu")}
    for plan, steps in (
        (toy_plan(tmp_path, cases=(smaller,), **tools), 1),
        (toy_plan(tmp_path, **tools), 5),
    ):
        machine = msgspec.structs.replace(toy_machine("h200"), kind="cuda")
        run(tmp_path, plan, None, lambda *_, steps=steps: CaseProfile(case="one", steps=steps), machine)
    assert asked == [("steps", 1), ("kernels", 1), ("steps", 5), ("kernels", 3)]


def three_cases(folder, **changes):
    plan = toy_plan(folder, device="h200", profilers=("torch",))
    cases = tuple(msgspec.structs.replace(plan.cases[0], case=case, **changes) for case in ("one", "two", "three"))
    return msgspec.structs.replace(plan, cases=cases)


def test_two_cases_run_side_by_side_on_a_gpu_and_one_at_a_time_touches_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    reading, touching = threading.Barrier(2, timeout=10), []

    def one(plan, case, root, captures, machine):
        with lock_captures(plan.device):
            touching.append(case)
            time.sleep(0.02)
            alone = len(touching) == 1
            touching.remove(case)
        # both of a pair get here before either of them ends
        if case != "three":
            reading.wait()
        return CaseProfile(case=case, facts={"alone": alone})

    found = run(tmp_path, three_cases(tmp_path), None, one, toy_machine("h200"))
    assert [(case.case, case.facts["alone"]) for case in found.cases] == [
        ("one", True), ("two", True), ("three", True)
    ]  # fmt: skip


def test_the_lock_of_captures_is_kept_from_other_threads_until_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    order = []

    def other():
        with lock_captures("h200"):
            order.append("other")

    with lock_captures("h200"):
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_a_case_that_was_too_tight_beside_others_is_profiled_again_alone(tmp_path):
    tries, held = [], []

    @contextmanager
    def keep(what):
        held.append(what)
        yield tmp_path / "turn"
        held.remove(what)

    def one(plan, case, root, captures, machine):
        tries.append((case, *held))
        out = Failure(reason=Reason.OUT_OF_MEMORY, message="CUDA out of memory")
        return CaseProfile(case=case, failure=out if case == "two" and held == ["shared"] else None)

    places = {"share": lambda: keep("shared"), "lock_alone": lambda: keep("alone")}
    found = run(tmp_path, three_cases(tmp_path), None, one, toy_machine("h200"), **places)
    assert [case.failure for case in found.cases] == [None, None, None]
    assert sorted(tries) == [("one", "shared"), ("three", "shared"), ("two", "alone"), ("two", "shared")]
    tries.clear()
    capped = run(tmp_path, three_cases(tmp_path, memory_limit_bytes=1 << 30), None, one, toy_machine("h200"), **places)
    assert capped.cases[1].failure.reason is Reason.OUT_OF_MEMORY and len(tries) == 3


def test_on_a_cpu_no_case_runs_beside_another(tmp_path):
    threads = set()

    def one(plan, case, root, captures, machine):
        threads.add(threading.active_count())
        return CaseProfile(case=case)

    run(tmp_path, msgspec.structs.replace(three_cases(tmp_path), device="cpu"), None, one)
    assert len(threads) == 1
