"""Two functions in, a verdict out: right ones are timed, wrong ones and cheats get no ratio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from phasewise.cli import commands
from phasewise.match import ask
from phasewise.match import play as match
from phasewise.match.describe import describe_judgement
from phasewise.match.plan import Effort
from phasewise.match.play import judge
from phasewise.match.schema import render_schema
from phasewise.records.errors import UserError
from phasewise.records.exit_code import ExitCode
from phasewise.records.judgement import Judgement
from phasewise.records.verdict import Failure, Reason, Status
from phasewise.store import encode
from phasewise.validate.outcomes import failed_case

SUMS = Path(__file__).with_name("sums.py")
SCHEMA = Path(__file__).parents[2] / "docs" / "judge.schema.json"
EFFORT = Effort(sets=2, rounds=6)
WRONG = (
    "partial", "zeros", "constant", "swallows_nan", "every_fourth", "lazy", "lazily_iterated", "late", "narrow", "wide", "spoils_its_input", "named_otherwise",
)  # fmt: skip

# seconds each: they are refused before anything is timed
QUICK = ("zeros", "spoils_its_input")


def play(candidate: str, base: str = "base") -> Judgement:
    found = judge(f"{SUMS}:{base}", f"{SUMS}:{candidate}", device="cpu", effort=EFFORT)
    jsonschema.validate(json.loads(encode(found)), json.loads(SCHEMA.read_text()))
    return found.judgements[0]


def test_the_schema_in_the_documentation_is_that_of_the_records() -> None:
    assert SCHEMA.read_text() == render_schema(), "run `make tables`"


@pytest.mark.parametrize(
    "candidate", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in WRONG]
)
def test_what_is_wrong_gets_no_ratio(candidate: str) -> None:
    found = play(candidate)
    assert found.status is Status.INVALID and found.exit_code is ExitCode.WRONG, found.detail
    assert found.ratio is None and found.detail


@pytest.mark.slow
def test_a_right_and_faster_candidate_is_told_so() -> None:
    found = play("faster")
    assert found.status in (Status.FASTER, Status.INCONCLUSIVE)
    assert found.ratio is not None and found.ratio.estimate > 2
    assert found.worst is not None and found.worst < 1
    assert found.reference == "float64"
    # one set is enough for what is beyond 3x in every round, and of one no limit is known
    assert found.measurement is not None and any("noise limit" in line for line in describe_judgement(found))
    sets = {taken.process_set for taken in found.measurement.rounds}
    assert (found.noise_limit is None) == (len(sets) == 1)


@pytest.mark.slow
def test_the_base_itself_is_never_refused_and_never_faster() -> None:
    found = play("base")
    assert found.status in (Status.SAME, Status.INCONCLUSIVE), found.detail


@pytest.mark.slow
@pytest.mark.parametrize("candidate", ["by_pointer", "by_pointer_when_timed", "by_contents", "by_operator"])
def test_a_candidate_that_remembers_gains_nothing(candidate: str) -> None:
    found = play(candidate)
    assert found.exit_code is ExitCode.CHEAT and found.ratio is None, found.detail


@pytest.mark.slow
@pytest.mark.parametrize("candidate", ["slow_clock", "knows_the_checker"])
def test_a_clock_that_is_set_back_or_a_look_at_the_modules_gains_nothing(candidate: str) -> None:
    found = play(candidate)
    assert found.status is Status.INVALID or not found.ratio or found.ratio.estimate < 1.5


@pytest.mark.parametrize(("candidate", "says"), [("crashes", "no such sum"), ("ends", "exit status 0")])
def test_a_candidate_that_can_not_be_run_is_a_crash(candidate: str, says: str) -> None:
    found = play(candidate)
    assert found.exit_code is ExitCode.CRASH and says in found.detail


def test_a_base_without_inputs_or_that_fails_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def f(x): return x\n")
    with pytest.raises(UserError, match="define make_inputs"):
        judge(f"{tmp_path}/plain.py:f", f"{tmp_path}/plain.py:f", device="cpu", effort=EFFORT)
    with pytest.raises(UserError, match="no such sum"):
        play("faster", base="crashes")
    with pytest.raises(UserError, match="has no function or class 'absent'"):
        play("absent")


@pytest.mark.slow
def test_the_command_ends_with_the_verdict_and_writes_every_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    file = tmp_path / "verdict.json"
    done = CliRunner().invoke(
        commands,
        [
            "judge",
            f"{SUMS}:base",
            f"{SUMS}:zeros",
            "--device",
            "cpu",
            "--json",
            str(file),
            "--page",
            str(tmp_path / "verdict.html"),
        ],
        standalone_mode=False,
    )
    assert done.return_value == int(ExitCode.WRONG)
    assert "INVALID: the candidate is refused" in done.output and '"status": "INVALID"' in file.read_text()
    assert "the candidate is refused" in (tmp_path / "verdict.html").read_text()


@pytest.mark.slow
def test_an_agent_is_told_one_line_about_a_candidate_that_is_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    command = ["judge", f"{SUMS}:base", f"{SUMS}:crashes", "--device", "cpu", "--agent"]
    done = CliRunner().invoke(commands, command, standalone_mode=False)
    told = json.loads(done.stdout)
    assert done.return_value == told["exit_code"] == int(ExitCode.CRASH) and told["isolated"]
    line = next(number for number, text in enumerate(SUMS.read_text().splitlines(), 1) if "no such sum" in text)
    assert told["summaries"][0]["place"] == f"sums.py:{line}" and "no such sum" not in done.output
    with pytest.raises(UserError, match="leave out one or the other"):
        CliRunner().invoke(commands, [*command, "--json", "-"], standalone_mode=False, catch_exceptions=False)


def test_a_base_that_is_off_itself_widens_the_tier_and_the_verdict_says_by_how_much() -> None:
    found = play("zeros", base="steep")
    assert found.exit_code is ExitCode.WRONG and 4 < found.widened < 100
    assert found.allowance.rtol == pytest.approx(found.widened * 1e-4)


LARGE = """
import torch
def make_inputs(seed):
    return {"x": torch.full((WIDTH,), float(seed % 7))}
def base(x):
    return 2 * x
"""


@pytest.mark.parametrize(("width", "says"), [(1 << 40, "memory"), (1 << 22, "take at least 0.537 GB")])
def test_a_base_that_does_not_fit_is_told_before_it_takes_memory_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, says: str
) -> None:
    monkeypatch.setattr(ask, "count_free_bytes", lambda: 1 << 28)
    (tmp_path / "large.py").write_text(f"WIDTH = {width}\n{LARGE}")
    sides = (f"{tmp_path}/large.py:base", f"{tmp_path}/large.py:base")
    (found,) = judge(*sides, device="cpu", effort=EFFORT).judgements
    assert (found.status, found.reason) == (Status.INCONCLUSIVE, Reason.OUT_OF_MEMORY)
    assert says in found.detail


def test_a_base_whose_gate_runs_out_of_memory_is_not_the_users_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    died = Failure(reason=Reason.OUT_OF_MEMORY, message="killed by SIGKILL")
    monkeypatch.setattr(match, "validate_case", lambda *given, **named: failed_case("call", died))
    found = play("faster")
    assert (found.status, found.reason, found.exit_code) == (
        Status.INCONCLUSIVE,
        Reason.OUT_OF_MEMORY,
        ExitCode.UNDECIDED,
    )
    assert "killed by SIGKILL" in found.detail and found.ratio is None


@pytest.mark.slow
def test_a_base_that_draws_is_told_where_to_draw(tmp_path: Path) -> None:
    (tmp_path / "drawing.py").write_text(
        "import torch\ndef make_inputs(seed): return {'x': torch.ones(8)}\ndef base(x): return x + torch.randn(8)\n"
    )
    with pytest.raises(UserError, match="take random numbers from make_inputs"):
        judge(f"{tmp_path}/drawing.py:base", f"{tmp_path}/drawing.py:base", device="cpu", effort=EFFORT)


def test_modules_in_the_folder_of_the_caller_are_found_by_every_process(tmp_path: Path) -> None:
    (tmp_path / "kernels_here").mkdir()
    (tmp_path / "kernels_here" / "both.py").write_text(
        "import torch\ndef get_inputs(): return [torch.randn(8)]\ndef base(x): return x + 1\ndef wrong(x): return x + 2\n"
    )
    sides = ("kernels_here.both:base", "kernels_here.both:wrong")
    # as the command's script, it has not got its folder on the path
    command = [sys.executable, "-P", "-m", "phasewise", "judge", *sides, "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == ExitCode.WRONG, done.stdout + done.stderr
