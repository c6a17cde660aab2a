"""Two functions in, a verdict out: right ones are timed, wrong ones and cheats get no ratio."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from phasewise.cli import commands
from phasewise.judge import ExitCode, judge
from phasewise.judge.match import Rules
from phasewise.judge.verdict import Look, Refresh, Round, Set, Timing, conclude
from phasewise.records.errors import UserError
from phasewise.records.verdict import Status

SUMS = Path(__file__).with_name("sums.py")
RULES = Rules(sets=2, rounds=6)
WRONG = (
    "partial", "zeros", "constant", "swallows_nan", "by_pointer", "every_fourth", "lazy", "late", "narrow", "wide", "spoils_its_input",
    "named_otherwise", "knows_the_checker",
)  # fmt: skip

# seconds each: they are refused before anything is timed
QUICK = ("zeros", "spoils_its_input")


def play(candidate: str, base: str = "base", **options):
    return judge(f"{SUMS}:{base}", f"{SUMS}:{candidate}", device="cpu", rules=RULES, **options)


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
    assert found.worst is not None and found.worst < 1 and found.looks >= 2 * 6
    assert found.reference == "float64" and found.noise_limit is not None


@pytest.mark.slow
def test_the_base_itself_is_never_refused_and_never_faster() -> None:
    found = play("base")
    assert found.status in (Status.SAME, Status.INCONCLUSIVE), found.detail


@pytest.mark.slow
def test_a_candidate_that_remembers_contents_gains_nothing() -> None:
    found = play("by_contents")
    assert found.exit_code is ExitCode.CHEAT and "new contents" in found.detail


@pytest.mark.slow
def test_a_clock_that_is_set_back_gains_nothing() -> None:
    found = play("slow_clock")
    assert found.exit_code is ExitCode.CHEAT or not found.ratio or found.ratio.estimate < 1.5


@pytest.mark.parametrize(("candidate", "says"), [("crashes", "no such sum"), ("ends", "exit status 0")])
def test_a_candidate_that_can_not_be_run_is_a_crash(candidate: str, says: str) -> None:
    found = play(candidate)
    assert found.exit_code is ExitCode.CRASH and says in found.detail


def test_a_base_without_inputs_or_that_fails_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def f(x): return x\n")
    with pytest.raises(UserError, match="define make_inputs"):
        judge(f"{tmp_path}/plain.py:f", f"{tmp_path}/plain.py:f", device="cpu", rules=RULES)
    with pytest.raises(UserError, match="no such sum"):
        play("faster", base="crashes")
    with pytest.raises(UserError, match="has no function 'absent'"):
        play("absent")


@pytest.mark.slow
def test_the_command_ends_with_the_verdict_and_writes_every_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASEWISE_LOCK_DIR", str(tmp_path))
    file = tmp_path / "verdict.json"
    done = CliRunner().invoke(
        commands,
        ["judge", f"{SUMS}:base", f"{SUMS}:zeros", "--device", "cpu", "--json", str(file)],
        standalone_mode=False,
    )
    assert done.return_value == int(ExitCode.WRONG)
    assert "INVALID: the candidate is refused" in done.output and '"status": "INVALID"' in file.read_text()


def make_set(ratio: float, *, way: float = 1e-4, fresh: float = 1.0, spread: float = 0.002) -> Set:
    """A set whose candidate is `ratio` times as fast, with the parent's clock `way` seconds ahead of it."""
    rounds = []
    for number in range(12):
        noise = spread * math.sin(7 * number)
        times = {"base": 0.02, "control": 0.02 * (1 + noise / 2), "candidate": 0.02 / ratio * (1 + noise)}
        rounds.append(
            Round(
                timings=tuple(
                    Timing(
                        player=player,
                        steps=10,
                        parent_s=seconds,
                        own_s=seconds - (way if player == "candidate" else 1e-4),
                    )
                    for player, seconds in times.items()
                )
            )
        )
    looks = tuple(Look(player=player, known=True, worst=0.1) for player in ("base", "candidate", "control"))
    refreshes = tuple(Refresh(fresh_s=0.01 * fresh * (1 + 0.01 * math.sin(n)), sham_s=0.01) for n in range(8))
    return Set(looks=looks, rounds=tuple(rounds), refreshes=refreshes, steps={})


def settle(*sets: Set):
    told = {"dtype": "float64", "tier": {"rtol": 1e-4, "atol": 1e-5}}
    return conclude(sets, {"base": "b", "candidate": "c"}, "cpu", told)


@pytest.mark.parametrize(
    ("ratio", "status"), [(2.0, Status.FASTER), (0.5, Status.SLOWER), (1.0, Status.SAME), (1.001, Status.SAME)]
)
def test_the_status_is_that_of_the_ratio(ratio: float, status: Status) -> None:
    assert settle(*[make_set(ratio)] * 3).status is status


def test_a_clock_that_lags_in_every_set_is_refused_and_in_one_is_not() -> None:
    assert settle(*[make_set(2.0, way=0.005)] * 3).reason == "clock"
    assert settle(make_set(2.0, way=0.005), make_set(2.0), make_set(2.0)).status is Status.FASTER


def test_new_contents_that_cost_more_in_two_sets_are_refused() -> None:
    assert settle(make_set(2.0, fresh=1.5), make_set(2.0, fresh=1.5), make_set(2.0)).reason == "remembers"
    assert settle(make_set(2.0, fresh=1.5), make_set(2.0), make_set(2.0)).status is Status.FASTER
    assert settle(*[make_set(2.0, fresh=1.05)] * 3).status is Status.FASTER
