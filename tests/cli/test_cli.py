"""The command line: one sentence and exit code 2 for what a user can cure, never a traceback."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from snakemake.cli import get_argument_parser

from phasewise.cli import commands, keep_bytecode
from phasewise.cli.budget import DEADLINE, must_fit, parse_duration
from phasewise.graph import lock_project
from phasewise.model.layout import Layout
from phasewise.records.errors import UserError
from phasewise.records.measure import Measurement
from phasewise.run import Run
from phasewise.store import digest_of, write, write_bytes
from phasewise.workers.isolated import run_isolated
from phasewise.workers.lock import count_shared, lock_captures, lock_machine, parse_gpus, share_machine

SUBCOMMANDS = {
    "analyse",
    "diff",
    "doctor",
    "export",
    "files",
    "init",
    "judge",
    "look",
    "measure",
    "pack",
    "unpack",
    "headline",
    "control",
    "predict",
    "plan",
    "prepare",
    "profile",
    "report",
    "retry",
    "status",
    "run",
    "try",
    "validate",
}


def call(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "phasewise", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=120,
    )


def test_workers_keep_their_bytecode_where_an_image_says_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "imported.py").write_text("def show(payload): return payload\n")
    keep_bytecode()
    # with what a forked worker can't have
    fresh = {"PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "0"}
    assert run_isolated("imported:show", 3, environment=fresh, folder=tmp_path) == 3
    assert list(tmp_path.glob("__pycache__/imported.*.pyc"))


def test_the_surface_is_these_subcommands():
    assert set(commands.commands) == SUBCOMMANDS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan",), "no project is here, since workflow/config.yaml is missing; `phasewise init FOLDER` starts one"),
        (("run",), "no project is here"),
        (("profile", "train.py"), "`phasewise look -- python train.py` looks at any script"),
        (("validate", "w", "tiny-cpu", "00-baseline"), "no such run is planned"),
        (("report", "w", "tiny-cpu"), "no such run is planned"),
        (("retry", "w", "tiny-cpu"), "no such run is planned"),
        (("run", "--budget", "soon"), "is no duration"),
        (("init", ".", "--name", "../up"), "is not allowed"),
        (("measure",), "Missing argument"),
        (("meassure",), "No such command"),
        (("prepare",), "name a workload and a run"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_mistake_ends_with_code_2_and_no_traceback(tmp_path, arguments, words):
    done = call(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_init_writes_a_workload_that_plans_and_never_overwrites(tmp_path):
    assert call(tmp_path, "init", "mine").returncode == 0
    done = call(tmp_path / "mine", "plan")
    assert done.returncode == 0, done.stderr
    assert "01-vectorised" in done.stdout and "02-fused" in done.stdout
    again = call(tmp_path, "init", "mine")
    assert again.returncode == 2 and "exists already" in again.stderr


def test_an_unknown_variant_names_those_that_are_planned(tmp_path):
    call(tmp_path, "init", "mine")
    call(tmp_path / "mine", "plan")
    done = call(tmp_path / "mine", "measure", "my_workload", "tiny-cpu", "07-none")
    assert done.returncode == 2
    assert "00-baseline, 01-vectorised" in done.stderr


TWO_CASES = """
from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Workload
from phasewise.records.errors import UserError


@dataclass(frozen=True)
class Switches:
    fast: bool = False
    form: str = "loop"

    def __post_init__(self):
        if self.form not in ("loop", "wide", "broken"):
            raise UserError(f"w: switch form={self.form!r} is unknown; choose among loop, wide")


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.ones(shape.n, dtype=torch.float64)}


def build(switches, inputs, case, shape, device):
    if switches.form == "broken":
        raise KeyError("float17")
    return Program(step=lambda batch: {"y": 2 * batch["x"]})


workload = Workload(
    summary="Two cases",
    switches=Switches,
    cases={"one": Case(tiny=Shape(n=4)), "two": Case(tiny=Shape(n=4))},
    phases=(Phase("fast", {"fast": True}, because=Idea("it is"), cases=("one",)),),
)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--case", "two"), 2, "try: 01-fast has no case 'two'; choose among one"),
        (("--set", "form=lop"), 2, "w: switch form='lop' is unknown; choose among loop, wide"),
        (("--set", "form=broken"), 30, "KeyError: 'float17' (w.py:26)"),
    ],
)
def test_a_try_of_what_is_not_there_or_crashes_is_no_success(tmp_path, arguments, code, words):
    (tmp_path / "w.py").write_text(TWO_CASES)
    (tmp_path / "workflow").mkdir()
    (tmp_path / "workflow/config.yaml").write_text("workloads:\n  w: {source: w.py}\nsize: tiny\n")
    done = call(tmp_path, "try", "w", "01-fast", *arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
    # of a crash the part of the user's own
    assert ("Traceback" in done.stderr) == (code == 30)
    assert code != 30 or 'File "w.py", line 26, in build' in done.stderr
    assert str(tmp_path) not in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["status"]])
def test_what_can_not_be_written_is_a_sentence_and_no_verdict(repository, arguments):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "phasewise", *arguments],
            cwd=repository,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
        silent = subprocess.run(
            [sys.executable, "-m", "phasewise", *arguments], cwd=repository, stdout=full, stderr=full
        )
    assert ended.returncode == silent.returncode == 2
    assert (
        ended.stderr
        == "phasewise: standard output or a file: can't be written (No space left on device); make room there\n"
    )


def test_a_reader_who_leaves_is_no_fault(repository):
    started = subprocess.Popen(
        [sys.executable, "-m", "phasewise", "status"], cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert started.stdout is not None and started.stderr is not None
    started.stdout.close()
    assert started.stderr.read() == b"" and started.wait() in (0, 1)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("8m", 480), ("1.5h", 5400), (" 2 m ", 120)])
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "-3m", "0", "3 days", "1e3"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UserError, match="is no duration"):
        parse_duration(text)


def test_a_job_that_would_not_fit_is_not_started(tmp_path, monkeypatch):
    monkeypatch.setenv(DEADLINE, "100")
    monkeypatch.setattr("phasewise.cli.budget.time.time", lambda: 70.0)
    must_fit("measure 01-a", 20)
    with pytest.raises(UserError, match="may take 40 s and 30 s of the budget are left"):
        must_fit("measure 01-a", 40)


def test_two_runs_in_one_folder_are_kept_apart_and_a_dead_one_leaves_nothing(tmp_path):
    file = lock_project(tmp_path)
    with pytest.raises(UserError, match="another run is at work"):
        lock_project(tmp_path)
    # what the system does when the process is killed
    file.close()
    lock_project(tmp_path).close()


def test_validations_share_the_machine_and_no_measurement_runs_beside_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    with lock_machine("h200", shared=True), lock_machine("h200", shared=True):
        other = os.open(tmp_path / "phasewise-h200.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)


def test_profiles_share_the_machine_and_one_at_a_time_captures(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    capture = tmp_path / "phasewise-h200.capture.lock"
    with share_machine("h200"), share_machine("h200"):
        # nothing is timed meanwhile, also between two captures
        with (tmp_path / "phasewise-h200.lock").open("rb") as machine, pytest.raises(BlockingIOError):
            fcntl.flock(machine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with lock_captures("h200"), capture.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # a gate runs beside gates, and beside no capture
        gates = lock_machine("h200", shared=True), lock_machine("h200", shared=True)
        with gates[0], gates[1], capture.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    cpu = share_machine("cpu"), lock_captures("cpu")
    with cpu[0], cpu[1], (tmp_path / "phasewise-cpu.lock").open("rb") as machine, pytest.raises(BlockingIOError):
        fcntl.flock(machine, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert not (tmp_path / "phasewise-cpu.capture.lock").exists()


def test_jobs_of_a_pool_measure_each_on_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("PHASEWISE_GPUS", "0,3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(
        "phasewise.workers.lock.name_gpus",
        lambda entries=None: {entry: f"GPU-{entry}" for entry in entries or [os.environ["CUDA_VISIBLE_DEVICES"]]},
    )
    # validations crowd on the last GPU, and leave the first to what is timed
    with lock_machine("h200", shared=True), lock_machine("h200", shared=True):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
        with lock_machine("h200"):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    with lock_machine("h200"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
        # and keep off a GPU that is being timed
        with lock_machine("h200", shared=True):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
        with lock_machine("h200"):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
            for gpu in "03":
                other = os.open(tmp_path / f"phasewise-GPU-{gpu}.lock", os.O_RDWR)
                with pytest.raises(BlockingIOError):
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.close(other)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"


def test_what_takes_no_times_spreads_over_all_but_the_first_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("PHASEWISE_GPUS", "0,1,2,3")
    monkeypatch.setattr(
        "phasewise.workers.lock.name_gpus", lambda entries=None: {entry: f"GPU-{entry}" for entry in entries or "0123"}
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    def see(*, shared):
        with lock_machine("h200", shared=shared):
            return os.environ["CUDA_VISIBLE_DEVICES"]

    # by chance one of three is left out of eighty with 3e-14
    assert {see(shared=True) for _ in range(80)} == {"1", "2", "3"} and see(shared=False) == "0"
    with lock_machine("h200"), lock_machine("h200"), lock_machine("h200"):
        assert {see(shared=True) for _ in range(5)} == {"3"}
    with ExitStack() as taken:
        # other runs time on the last ones
        for gpu in "123":
            file = taken.enter_context((tmp_path / f"phasewise-GPU-{gpu}.lock").open("rb"))
            fcntl.flock(file, fcntl.LOCK_EX)
        assert see(shared=True) == "0"
    assert [count_shared(gpus) for gpus in (1, 2, 3, 4, 8)] == [1, 1, 2, 3, 7]


def test_profiles_keep_off_gpus_that_gates_are_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("PHASEWISE_GPUS", "0,1,2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr("phasewise.workers.lock.POLL_S", 0.01)
    monkeypatch.setattr(
        "phasewise.workers.lock.name_gpus",
        lambda entries=None: {
            entry: f"GPU-{entry}" for entry in entries or os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        },
    )
    with lock_machine("h200", shared=True):
        gates_on = os.environ["CUDA_VISIBLE_DEVICES"]
        # side by side, also while one of them captures
        for _ in range(10):
            with share_machine("h200"), lock_captures("h200"):
                assert os.environ["CUDA_VISIBLE_DEVICES"] != gates_on
                with share_machine("h200"):
                    assert os.environ["CUDA_VISIBLE_DEVICES"] != gates_on
        # what is timed does not drive them to the gates
        with lock_machine("h200"):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
            with share_machine("h200"), lock_captures("h200"):
                assert os.environ["CUDA_VISIBLE_DEVICES"] == {"1": "2", "2": "1"}[gates_on]
    monkeypatch.setenv("PHASEWISE_GPUS", "0,1")
    waited, is_free = [], Event()

    def profile():
        with share_machine("h200"):
            waited.append(is_free.is_set())

    with lock_machine("h200"):
        waiting = Thread(target=profile)
        with lock_machine("h200", shared=True):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
            is_free.set()
        waiting.join(10)
    assert waited == [True]


@pytest.mark.parametrize("told", ["option", "variable"])
def test_a_run_of_several_gpus_has_as_many_jobs_at_a_time(monkeypatch, told):
    started = {}

    def run(command, environment, **kept):
        started.update(command=command, env=environment)
        os.close(kept["kept"][0])
        return 0

    def plan():
        # it is named by one of them, as its jobs name it
        started["planned"] = {name: os.environ.get(name) for name in ("PHASEWISE_GPUS", "CUDA_VISIBLE_DEVICES")}
        return []

    monkeypatch.setattr("phasewise.cli.follow.run_in_group", run)
    monkeypatch.setattr("phasewise.cli.keep.name_gpus", lambda entries: dict.fromkeys(entries, "GPU-x"))
    monkeypatch.setattr("phasewise.cli.keep.plan_here", plan)
    chosen = ["--gpus", "2,3"] if told == "option" else []
    if told == "variable":
        monkeypatch.setenv("PHASEWISE_GPUS", "2,3")
    done = CliRunner().invoke(commands, ["run", *chosen, "--prioritize", "index", "--", "all"])
    assert done.exit_code == 0, done.output
    _, _, snakemake, *words = started["command"]
    understood = get_argument_parser().parse_args(words)
    assert (snakemake, understood.prioritize, understood.targets) == ("snakemake", {"index"}, ["all"])
    assert [resource.value for resource in understood.resources.values()] == [2]
    assert started["env"]["CUDA_VISIBLE_DEVICES"] == "2" and started["env"]["PHASEWISE_GPUS"] == "2,3"
    assert started["planned"] == {"PHASEWISE_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "2"}


@pytest.mark.parametrize(("set_to", "threads"), [(None, "1"), ("4", "4")])
def test_a_run_has_the_threads_that_make_report_has(monkeypatch, set_to, threads):
    if set_to is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", set_to)
    seen = []

    def run(command, environment, **kept):
        seen.append(environment)
        os.close(kept["kept"][0])
        return 0

    monkeypatch.setattr("phasewise.cli.follow.run_in_group", run)
    assert CliRunner().invoke(commands, ["run"]).exit_code == 0
    assert seen[0]["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_that_did_not_make_everything_says_what_its_verdicts_are_of(monkeypatch, code):
    monkeypatch.setattr("phasewise.cli.keep.follow", lambda *given: (code, SimpleNamespace(ended=True)))
    ended = CliRunner().invoke(commands, ["run"])
    assert ended.exit_code == code
    assert ("not everything was made: the verdicts above" in ended.output) == bool(code)


def test_a_job_of_several_ranks_keeps_each_gpu_that_it_gets(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("PHASEWISE_GPUS", "0,1,3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(
        "phasewise.workers.lock.name_gpus", lambda entries: {entry: f"GPU-{entry}" for entry in entries}
    )
    cores = set(range(8))
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(cores))

    def set_affinity(pid, wanted):
        cores.clear()
        cores.update(wanted)

    monkeypatch.setattr("os.sched_setaffinity", set_affinity)
    with lock_machine("h200", ranks=2):
        # two of eight for each of three GPUs
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1" and cores == {0, 1, 2, 3}
    assert cores == set(range(8))
    with lock_machine("h200"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "0" and cores == {0, 1}
        set_affinity(0, range(8))
        with lock_machine("h200", ranks=2):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,3" and cores == {2, 3, 4, 5}

        waited = []

        def find_one_left(seconds):
            # the other is kept for the job of three meanwhile, and a second job of several waits for its turn
            for name in ("GPU-1", "GPU-3", "several"):
                other = os.open(tmp_path / f"phasewise-{name}.lock", os.O_RDWR)
                with pytest.raises(BlockingIOError):
                    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.close(other)
            waited.append(seconds)
            raise TimeoutError

        monkeypatch.setattr("phasewise.workers.lock.time.sleep", find_one_left)
        with pytest.raises(TimeoutError), lock_machine("h200", ranks=3):
            pass
        assert len(waited) == 1
        # a job that gave up leaves them to others
        with lock_machine("h200", ranks=2):
            assert os.environ["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"


@pytest.mark.parametrize("text", ["", "0,", "0,0", "0;1", "../x"])
def test_a_list_of_gpus_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="write numbers or UUIDs"):
        parse_gpus(text)


def test_two_runs_on_one_machine_measure_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    with lock_machine("h200"):
        other = os.open(tmp_path / "phasewise-h200.lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_a_record_of_another_plan_is_left_out_with_a_sentence(tmp_path, capsys):
    layout = Layout(tmp_path)
    folder = layout.records("w", "tiny-cpu", "01-a")
    write_bytes(b"a plan", folder / "plan.json")
    record = Measurement(
        workload="w",
        run="tiny-cpu",
        variant="01-a",
        plan=digest_of(folder / "plan.json"),
        machine="m",
        commit="",
        cases=(),
    )
    write(record, folder / "measure.json")
    assert Run("w", "tiny-cpu", layout=layout)["01-a"].measure == record
    assert capsys.readouterr().err == ""
    write_bytes(b"another plan", folder / "plan.json")
    assert Run("w", "tiny-cpu", layout=layout)["01-a"].measure is None
    assert "measure.json: made from another plan" in capsys.readouterr().err
