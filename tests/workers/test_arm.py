"""Worker processes on the CPU: what they answer, and how their deaths are told apart. Each spawn imports torch once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import torch

from phasewise.records.plan import VariantPlan
from phasewise.records.verdict import Failure, Reason
from phasewise.tensor_files import make_file, read_tensors
from phasewise.workers.arm import ArmProcesses, launch_case, launch_function
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.isolated import Isolated, run_isolated
from programs import plan_program, write_program


def open_session(folder: Path, plan: VariantPlan) -> ArmProcesses:
    write_program(folder)
    return ArmProcesses(launch_case(plan, "only", folder))


def fail(folder: Path, plan: VariantPlan) -> Failure:
    """The failure of a session that opens, and dies in its third step or before."""
    session = open_session(folder, plan)
    with pytest.raises(ProcessFailed) as caught:
        session.open()
        session.block(5, settle=0)
    session.close()
    return caught.value.failure


def test_a_worker_times_a_program_that_prints_and_keeps_its_outputs(tmp_path: Path) -> None:
    session = open_session(tmp_path, plan_program())
    opened = session.open(concurrent_builds=3)
    block = session.block(7, settle=1)
    assert opened["items"] == 8 and opened["build_s"] > 0 and opened["first_step_s"] > 0
    assert block["steps"] == 7 and 0 < block["wall_s"] < block["parent_s"] < 10 and block["device_s"] is None
    assert len(session.singles(5)) == 5 and len(session.placing(3)) == 3
    assert session.energy(2) is None
    used, kind = session.memory()
    assert used >= 0 and kind == "host-resident"
    session.close()


@pytest.mark.parametrize("mode", ["litters", "toggles"])
def test_what_the_steps_of_a_block_left_is_collected_after_its_answer(tmp_path: Path, mode: str) -> None:
    session = open_session(tmp_path, plan_program(mode))
    session.open()
    session.settle(0)
    told = tmp_path / "collected.txt"
    before = len(told.read_text().splitlines())
    session.block(5, settle=0)
    session.close()
    collected = [line.split() for line in told.read_text().splitlines()[before:]]
    # a step that turns the collection on has it in its own time
    assert not any("run_block" in stack and "step_placing" not in stack for stack in collected)
    assert any("end_block" in stack for stack in collected)


def deliver(session: ArmProcesses, results: int, steps: int) -> dict[str, torch.Tensor]:
    """What the last step of a block gave."""
    session.block(steps, settle=0)
    (told,) = session.deliver()
    assert told.problem == ""
    return read_tensors(results, told.slots)


@pytest.mark.parametrize(("mode", "is_restored"), [("restored", True), ("drifts", False)])
def test_a_block_begins_with_the_state_that_was_built_and_its_last_result_is_handed_over(tmp_path, mode, is_restored):
    write_program(tmp_path)
    results = make_file("results")
    session = ArmProcesses(launch_case(plan_program(mode), "only", tmp_path, files=[(results, results)]))
    session.open()
    first, later = deliver(session, results, 3), deliver(session, results, 3)
    assert all(torch.equal(first[name], later[name]) for name in first) is is_restored
    session.close()


def test_an_exception_is_a_crash_with_its_last_line(tmp_path: Path) -> None:
    failure = fail(tmp_path, plan_program("raises"))
    assert failure.reason is Reason.CRASH
    assert failure.message.startswith("RuntimeError: the third step is cursed (matrix.py:")
    assert failure.traceback.endswith("RuntimeError: the third step is cursed")


def test_a_worker_counts_what_a_step_amounts_to_at_its_first_batch(tmp_path: Path) -> None:
    session = open_session(tmp_path, plan_program())
    session.open()
    first = session.count()
    session.block(3, settle=0)
    assert session.count() == first and min(first) > 0
    session.close()


def test_a_worker_that_something_killed_did_not_run_out_of_memory(tmp_path: Path) -> None:
    assert fail(tmp_path, plan_program("killed")).reason is Reason.KILLED


def test_an_aborting_worker_is_a_crash_with_its_signal(tmp_path: Path) -> None:
    failure = fail(tmp_path, plan_program("aborts"))
    assert failure.reason is Reason.CRASH and "SIGABRT" in failure.message and "last words" in failure.message


def test_a_silent_worker_is_killed_after_the_time_limit(tmp_path: Path) -> None:
    failure = fail(tmp_path, plan_program("hangs", timeout_s=8.0))
    assert failure.reason is Reason.TIMEOUT and failure.message.endswith("was not done after 8 s")


def test_a_build_beyond_the_memory_cap_is_out_of_memory(tmp_path: Path) -> None:
    failure = fail(tmp_path, plan_program("greedy", memory_limit_bytes=200 << 20))
    assert failure.reason is Reason.OUT_OF_MEMORY


def test_a_build_that_is_not_supported_says_why(tmp_path: Path) -> None:
    failure = fail(tmp_path, plan_program("unsupported"))
    assert failure == Failure(reason=Reason.UNSUPPORTED, message="needs a newer world")


def test_a_group_of_two_ranks_steps_together(tmp_path: Path) -> None:
    session = open_session(tmp_path, plan_program("group", ranks=2))
    assert session.open()["items"] == 16
    assert session.block(5, settle=0)["wall_s"] > 0
    session.close()


TARGETS = """
import os
def double(payload):
    print("noise")
    return {"twice": 2 * payload["x"]}
def leave(payload):
    os._exit(3)
def tell(payload):
    return os.getpid()
"""


def test_an_isolated_call_gives_its_result_or_how_it_died(tmp_path: Path) -> None:
    (tmp_path / "targets.py").write_text(TARGETS)
    file = tmp_path / "targets.py"
    assert run_isolated(f"{file}:double", {"x": 21}, folder=tmp_path) == {"twice": 42}
    assert run_isolated(f"{file}:leave", {}, folder=tmp_path) == Failure(reason=Reason.CRASH, message="exit status 3")
    missing = run_isolated(f"{file}:absent", {}, folder=tmp_path)
    assert isinstance(missing, Failure) and missing.reason is Reason.BAD_PROGRAM and "absent" in missing.message


def test_an_isolated_process_takes_one_call_after_the_other_until_it_dies(tmp_path: Path) -> None:
    (tmp_path / "targets.py").write_text(TARGETS)
    found = []
    with closing(Isolated(folder=tmp_path)) as process:
        for function in ("tell", "tell", "leave", "tell"):
            process.begin(f"{tmp_path / 'targets.py'}:{function}", None)
            found.append(process.finish())
        process.begin("time:sleep", 600)
        assert not process.is_done()
    first, again, died, other = found
    assert first == again != other and died == Failure(reason=Reason.CRASH, message="exit status 3")


@pytest.mark.parametrize(("function", "has_compiler"), [("time:time", False), ("torch._dynamo:reset", True)])
def test_a_process_tells_whether_it_has_imported_the_compiler(function: str, has_compiler: bool) -> None:
    arm = ArmProcesses(launch_function(function))
    assert arm.open()["has_compiler"] is has_compiler
    arm.close()
