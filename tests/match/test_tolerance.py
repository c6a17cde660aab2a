"""How far a result may lie from the reference, where the base's module says so."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from phasewise.match.ask import ask_base
from phasewise.match.describe import describe_judgement
from phasewise.match.known import Base
from phasewise.match.plan import Setting, choose_allowance, find_widening, widen
from phasewise.match.play import judge
from phasewise.match.side import Side, parse_side
from phasewise.records.errors import UserError
from phasewise.records.exit_code import ExitCode
from phasewise.records.plan import Allowance
from phasewise.records.validate import CaseValidation, Outcome, TensorError

BASE = """
import torch

def make_inputs(seed):
    return [torch.randn(64, 64, generator=torch.Generator().manual_seed(seed))]

def base(x):
    return x.square()
"""
CANDIDATE = """
import torch

def get_tolerance():
    return {"rtol": 0.1, "atol": 0.1, "why": "it would like to"}

def halved(x):
    return x.to(torch.bfloat16).square().float()
"""
WHY = "bfloat16 is enough"


def write_base(folder: Path, told: str) -> str:
    (folder / "base.py").write_text(f"{BASE}\ndef get_tolerance():\n    return {told}\n" if told else BASE)
    return f"{folder}/base.py:base"


def ask(folder: Path, told: str) -> Base:
    found = ask_base(parse_side(write_base(folder, told)), {}, folder / "start.pt", "cpu")
    assert isinstance(found, Base)
    return found


def choose(told: Allowance | None, tier: str = "moderate", **other) -> Allowance:
    base = Base(
        name="base", dtype="float64", results={"0": "float32"}, is_half=False, evaluates=False, trains=False,
        tolerance=told, flops=0.0, bytes=0, batch_bytes=0, result_bytes=0,
    )  # fmt: skip
    base = msgspec.structs.replace(base, **other)
    setting = Setting(side=Side(source="base.py"), device="cpu", overrides={}, start=Path(), base=base)
    return choose_allowance(tier, setting)


def test_the_base_declares_it_and_without_it_the_tier_counts(tmp_path: Path) -> None:
    assert ask(tmp_path, "").tolerance is None
    found = ask(tmp_path, f'{{"rtol": 0.01, "atol": 1e-3, "why": "{WHY}"}}').tolerance
    assert found == Allowance(rtol=0.01, atol=1e-3, why=WHY)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("0.01", r"base.py: get_tolerance\(\) gives 0.01; \{\"rtol\": 1e-3"),
        ('{"rtol": 0.01}', "is its form"),
        ('{"rtol": 0.01, "atol": 0.0, "reason": "x"}', "is its form"),
        ('{"rtol": 0.5, "atol": 0.0}', r"get_tolerance\(\): rtol = 0.5 is not allowed; a number from 0 to 0.1"),
    ],
)
def test_what_is_no_tolerance_is_a_sentence(tmp_path: Path, told: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        ask(tmp_path, told)


def test_one_that_is_wider_than_the_tier_needs_a_reason() -> None:
    for told, tier in ((Allowance(rtol=1e-3, atol=1e-5), "moderate"), (Allowance(rtol=1e-4, atol=1e-5), "strict")):
        with pytest.raises(UserError, match=rf"more than the {tier} tier's .*give \"why\""):
            choose(told, tier)
    narrow = choose(Allowance(rtol=1e-6, atol=1e-7))
    assert (narrow.rtol, narrow.atol, narrow.why, narrow.times_baseline) == (1e-6, 1e-7, "", 64)
    wide = choose(Allowance(rtol=1e-2, atol=1e-3, why=WHY))
    assert (wide.rtol, wide.atol, wide.why, wide.times_baseline) == (1e-2, 1e-3, WHY, 1e6)
    # results in half precision are held to the relaxed tier
    assert choose(Allowance(rtol=1e-2, atol=1e-3), is_half=True).rtol == 1e-2


def test_no_tolerance_is_widened_beyond_what_any_may_be() -> None:
    own = Allowance(rtol=0.08, atol=1e-3, why=WHY)
    assert choose(own, dtype="float32").rtol == 0.1 and choose(own, dtype="float32").atol == 2e-3
    assert widen(choose(None, "relaxed"), 50).rtol == 0.1


@pytest.mark.parametrize(
    ("worst", "of_tier", "of_declared"),
    [
        ([0.01, 0.24], None, None),
        # it keeps the tier by less than it is off
        ([0.01, 0.5], 2.0, None),
        ([0.99, 0.01], 3.96, None),
        ([1.01, 0.01], 4.04, 4.04),
        ([24.9], 99.6, 99.6),
        ([26.0], None, None),
        # not a number, or of another shape
        ([0.5, None], None, None),
        ([], None, None),
    ],
)
def test_a_result_may_be_four_times_as_far_off_as_the_base_itself(
    worst: list[float | None], of_tier: float | None, of_declared: float | None
) -> None:
    errors = tuple(
        TensorError(
            kind="output", name=str(name), step=0, elements=1, max_abs=None, relative=None, worst=each,
            outcome=Outcome.PASS if each is not None and each <= 1 else Outcome.FAIL,
        )
        for name, each in enumerate(worst)
    )  # fmt: skip
    own = CaseValidation(case="call", outcome=Outcome.PASS, errors=errors)
    for is_declared, times in ((False, of_tier), (True, of_declared)):
        assert find_widening(own, is_declared=is_declared) == (times if times is None else pytest.approx(times))


@pytest.mark.slow
def test_a_candidate_is_right_by_what_the_base_declares_and_never_by_what_it_declares_itself(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(CANDIDATE)
    candidate = f"{tmp_path}/new.py:halved"
    found = judge(write_base(tmp_path, ""), candidate, device="cpu")
    assert found.exit_code is ExitCode.WRONG
    found = judge(write_base(tmp_path, f'{{"rtol": 0.02, "atol": 1e-3, "why": "{WHY}"}}'), candidate, device="cpu")
    one = found.judgements[0]
    assert found.exit_code not in (ExitCode.WRONG, ExitCode.CHEAT, ExitCode.CRASH), one.detail
    assert one.allowance is not None and one.allowance.why == WHY
    assert any(f"(rtol 0.02, atol 0.001, as the base has it: {WHY})" in line for line in describe_judgement(one))
