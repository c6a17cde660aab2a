"""Mistakes in a workload are found when it is loaded, one sentence each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from phasewise import Case, Check, Idea, Peer, Phase, Risk, Shape, Target, Tolerance, Workload
from phasewise.model.check import check_workload
from phasewise.model.workload import DEFAULT_TIERS
from phasewise.records.errors import PlanError


@dataclass(frozen=True)
class Switches:
    fused: bool = False
    block: int = 64
    scale: float = 1.0


GOOD = Workload(
    summary="A sum",
    switches=Switches,
    cases={"sum": Case(tiny=Shape(n=4))},
    parts={"week-1": (Target("speedup", against="baseline", minimum=2, target=3),)},
    phases=(Phase("fused", {"fused": True}, because="fusible-chain", part="week-1"),),
    peers=(Peer("numpy"),),
)


def with_phase(**changes) -> Workload:
    return replace(GOOD, phases=(replace(GOOD.phases[0], **changes),))


def with_target(*arguments, **options) -> Workload:
    return replace(GOOD, targets=(Target(*arguments, **options),))


def with_tier(moderate: Tolerance) -> Workload:
    return replace(GOOD, tiers={**DEFAULT_TIERS, "moderate": moderate})


@dataclass
class Mutable:
    fused: bool = False


@dataclass(frozen=True)
class Listed:
    sizes: tuple = ()


@dataclass(frozen=True)
class Undefaulted:
    fused: bool


BAD = {
    "unknown switch": (with_phase(sets={"fusd": True}), "switch 'fusd' is unknown; choose among fused, block, scale"),
    "wrong type": (with_phase(sets={"block": "64"}), "type int is needed"),
    "bool for int": (with_phase(sets={"block": True}), "type int is needed"),
    "changes nothing": (with_phase(sets={"fused": False}), "changes nothing"),
    "sets nothing": (with_phase(sets={}), "changes nothing"),
    "unknown finding": (with_phase(because="slow"), "is no finding"),
    "empty idea": (with_phase(because=Idea(" ")), "because: text = ' ' is not allowed; text, and not an empty one"),
    "unknown part": (with_phase(part="week-9"), "part 'week-9' is unknown; choose among week-1"),
    "unknown onto": (with_phase(onto="later"), "is no phase before it"),
    "unknown case": (with_phase(cases=("product",)), "case 'product' is unknown; choose among sum"),
    "kept must": (with_phase(must="INVALID"), "add keep=False"),
    "stays and goes": (with_phase(stays="b needs it", keep=False), "the reason why a kept phase stays"),
    "other must": (with_phase(must="FASTER", keep=False), "must = 'FASTER' is not allowed; 'INVALID' or None"),
    "expect order": (with_phase(expect=(2, 1)), "no interval of speed-ups"),
    "expect zero": (with_phase(documented=(0, 1)), "a finite number above 0"),
    "unsafe name": (with_phase(name="../x"), "is not allowed"),
    "repeated": (replace(GOOD, phases=(GOOD.phases[0], replace(GOOD.phases[0], sets={"block": 2}))), "used twice"),
    "missing check": (replace(GOOD, checks=(Check("drift"),)), "check 'drift' is not a function"),
    "risk without check": (with_phase(risks=(Risk("r", "low", "low"),)), "give either check"),
    "risk of no target": (with_phase(risks=(Risk("r", "low", "low", target="gone"),)), "target 'gone' does not exist"),
    "risk with both": (with_phase(risks=(Risk("r", "low", "low", check="finite", by_hand="x"),)), "give either check"),
    "risk check missing": (with_phase(risks=(Risk("r", "low", "low", check="drift"),)), "does not exist"),
    "risk probability": (with_phase(risks=(Risk("r", 130, "low", check="finite"),)), "0 to 100"),
    "target bounds": (with_target("time_s"), "no bound"),
    "target order": (with_target("time_s", minimum=1, target=2), "out of order"),
    "target order higher": (with_target("speedup", against="baseline", minimum=3, target=2), "out of order"),
    "target case": (with_target("time_s", case="x", minimum=1), "case 'x' is unknown"),
    "target against": (
        with_target("speedup", against="jax", minimum=1),
        "choose among baseline, parent, absolute, numpy",
    ),
    "target absolute speedup": (with_target("speedup", minimum=1), "against something"),
    "target way": (with_target("drift", minimum=1), "which way is better"),
    "no case": (replace(GOOD, cases={}), "has no case"),
    "no size": (replace(GOOD, cases={"sum": Case()}), "has no size"),
    "no steps": (
        replace(GOOD, cases={"sum": Case(tiny=Shape(), steps=0)}),
        "steps = 0 is not allowed; a whole number from 1 to 1000",
    ),
    "case name": (replace(GOOD, cases={"a/b": Case(tiny=Shape())}), "is not allowed"),
    "memory size": (
        replace(GOOD, cases={"sum": Case(tiny=Shape(), memory_limit_bytes={"big": 1})}),
        "key = 'big' is not allowed; one of 'tiny', 'small', 'full'",
    ),
    "mutable switches": (replace(GOOD, switches=Mutable, phases=()), "add frozen=True"),
    "switch type": (replace(GOOD, switches=Listed, phases=()), "switch 'sizes' = () is not allowed"),
    "switch default": (replace(GOOD, switches=Undefaulted, phases=()), "has no default"),
    "no dataclass": (replace(GOOD, switches=int, phases=()), "a frozen dataclass is needed"),
    "two peers": (replace(GOOD, peers=(Peer("a"), Peer("a"))), "same name"),
    "peer beside nothing": (replace(GOOD, peers=(Peer("a", beside="missing"),)), "beside='missing' is no phase"),
    "tiers": (replace(GOOD, tiers={}), "tier 'strict' is missing"),
    "tier that lets anything pass": (
        with_tier(Tolerance(1.0, 0.0, why="it is fast")),
        "rtol = 1.0 is not allowed; a number from 0 to 0.1",
    ),
    "tier of NaN": (with_tier(Tolerance(float("nan"), 0.0)), "rtol = nan"),
    "tier without end": (with_tier(Tolerance(0.0, float("inf"), why="why not")), "a finite number, 0 or more"),
    "tier below the baseline": (with_tier(Tolerance(0.0, 0.0, times_baseline=0.5)), "times_baseline = 0.5"),
    "wide tier": (with_tier(Tolerance(1e-3, 1e-5)), "tier 'moderate': rtol 0.001 and atol 1e-05 need a reason"),
    "tolerance of a phase": (
        replace(GOOD, phases=(replace(GOOD.phases[0], tolerance=Tolerance(1e-5, 1e-6)),)),
        "need a reason, which reports print",
    ),
}


@pytest.mark.parametrize(("workload", "words"), BAD.values(), ids=BAD)
def test_a_mistake_is_one_sentence(workload, words):
    with pytest.raises(PlanError) as caught:
        check_workload(workload, "w")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_good_workload_passes_and_checks_are_read_not_imported(tmp_path):
    file = tmp_path / "checks.py"
    file.write_text("raise RuntimeError('imported')\ndef energy_drift(context): ...\n")
    check_workload(replace(GOOD, checks=(Check("energy-drift"),)), "w", checks=file)


def test_an_int_is_allowed_where_a_float_is_the_default():
    check_workload(with_phase(sets={"scale": 2}), "w")


def test_two_phases_may_set_the_same_switch_for_cases_of_their_own():
    cases = {"sum": GOOD.cases["sum"], "mean": GOOD.cases["sum"]}
    one, other = (replace(GOOD.phases[0], name=f"fused-{case}", cases=(case,)) for case in cases)
    check_workload(replace(GOOD, cases=cases, phases=(one, other)), "sums")
    with pytest.raises(PlanError, match="changes nothing"):
        check_workload(replace(GOOD, cases=cases, phases=(one, replace(other, cases=("sum",)))), "sums")
