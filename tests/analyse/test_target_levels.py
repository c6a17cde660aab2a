"""Every metric against every kind of yardstick; a bound counts only if the cautious end reaches it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from synthetic_run import BASELINE, Peer, Phase, Run, make_run

from phasewise.analyse.measures import counted
from phasewise.analyse.targets import level_of
from phasewise.records.analyse import TargetResult
from phasewise.records.base import Interval, Quantity
from phasewise.records.measure import Window
from phasewise.records.plan import PlannedTarget
from phasewise.records.prepare import CaseWork
from phasewise.records.profile import Breakdown, CaseProfile, Count, Profile
from phasewise.records.validate import CheckResult, Outcome
from phasewise.records.verdict import Level
from phasewise.stats import StopRules
from phasewise.stats.simulate import simulate_run

LOWER = ("time_s", "peak_memory_bytes", "energy_j_per_item", "drift")
WINDOWS = tuple(Window(steps=100, seconds=2.0, joules=100 * 1000 * 0.5 * wobble) for wobble in (0.99, 1.0, 1.01))


def target(metric: str, against: str = "absolute", **bounds: float | str | None) -> PlannedTarget:
    better = "lower" if metric in LOWER else "higher"
    return PlannedTarget(name=metric, metric=metric, case="main", against=against, better=better, **bounds)  # type: ignore[arg-type]


def settle(run_of: tuple[Phase, ...], *targets: PlannedTarget, **more: object) -> tuple[TargetResult, ...]:
    return make_run(*run_of, targets=targets, **more).analyse()[0].targets  # type: ignore[arg-type]


COUNTS = Count(launches=40, synchronisations=2, device_to_host=1)
FAST = (Phase(name="a", speedup=2.0, part="one"), Phase(name="b", speedup=1.5, part="two"))


@pytest.mark.parametrize(
    ("metric", "against", "value"),
    [
        ("speedup", "baseline", 3.0),
        ("speedup", "parent", 1.5),
        ("speedup", "numpy", 4.0),
        ("time_s", "absolute", 1e-3 / 3),
        ("time_s", "baseline", 1 / 3),
        ("time_s", "parent", 1 / 1.5),
        ("time_s", "numpy", 1 / 4),
        ("items_per_s", "absolute", 3e6),
        ("items_per_s", "baseline", 3.0),
        ("peak_memory_bytes", "absolute", float(1 << 30)),
        ("peak_memory_bytes", "baseline", 0.25),
        ("energy_j_per_item", "absolute", 0.5),
        ("floor_fraction", "absolute", 1.3e-6 * 3e3),
        ("utilisation", "absolute", 0.8),
        ("synchronisations", "absolute", 2.0),
        ("device_to_host", "absolute", 1.0),
        ("launches", "absolute", 40.0),
        ("launches", "baseline", 0.4),
        ("drift", "absolute", 0.01),
    ],
)
def test_every_metric_has_a_value_against_every_yardstick(metric: str, against: str, value: float) -> None:
    check = CheckResult(check="energy-drift", outcome=Outcome.PASS, numbers={"drift": Quantity(value=0.01, unit="eV")})
    phases = (FAST[0], Phase(name="b", speedup=1.5, energy=WINDOWS, checks=(check,)))
    run = make_run(*phases, targets=(target(metric, against, minimum=1.0),), peers=(Peer(name="numpy", slower=4.0),))
    for variant, counts in (("00-baseline", Count(launches=100)), ("02-b", COUNTS)):
        step = CaseProfile(case="main", breakdown=Breakdown(wall_s=1.0, kernel_s=0.8), count=counts)
        run.profiles[variant] = Profile(
            workload="toy",
            run="full-h200",
            variant=variant,
            plan="0",
            machine=run.machine.identity,
            commit="abc",
            cases=(step,),
        )
    (found,) = run.analyse()[0].targets
    assert found.value == pytest.approx(value, rel=0.02), found.reason
    assert found.low is not None and found.high is not None and found.low <= found.value <= found.high
    assert found.level is not Level.NONE
    if metric == "drift":
        assert found.unit == "eV"


@pytest.mark.parametrize(
    ("bounds", "level"),
    [
        ({"minimum": 2.0, "target": 2.5, "stretch": 2.9}, Level.STRETCH),
        ({"minimum": 2.0, "target": 2.5, "stretch": 3.5}, Level.TARGET),
        ({"minimum": 2.0, "target": 3.1}, Level.MINIMUM),
        ({"minimum": 3.1}, Level.MISSED),
        ({"target": 3.1, "stretch": 4.0}, Level.MISSED),
        ({"stretch": 2.9}, Level.STRETCH),
        # the estimate may reach it; its lower end does not
        ({"minimum": 3.0}, Level.UNDECIDED),
        ({"target": 3.0, "stretch": 4.0}, Level.UNDECIDED),
        # one bound is reached, and another is not decided
        ({"minimum": 2.0, "target": 3.0}, Level.MINIMUM),
    ],
)
def test_the_level_is_the_highest_bound_that_the_cautious_end_reaches(bounds: dict[str, float], level: Level) -> None:
    (found,) = settle(FAST, target("speedup", "baseline", **bounds))
    assert found.level is level


def test_where_less_is_better_the_upper_end_has_to_be_below() -> None:
    within, beyond = settle(FAST, target("time_s", minimum=3.5e-4), target("time_s", minimum=3.335e-4))
    assert (within.level, within.reason, beyond.level) == (Level.MINIMUM, "", Level.UNDECIDED)


def test_at_the_very_bound_one_target_in_forty_is_reached_and_one_missed() -> None:
    goal = target("speedup", "baseline", minimum=1.05)
    rng = np.random.default_rng(0)
    levels: list[Level] = []
    for _ in range(300):
        ratios = simulate_run(rng, comparisons=4, rules=StopRules(least_sets=3, most_sets=3), gain=0.05)
        levels += [level_of(Interval(estimate=r.estimate, low=r.low, high=r.high), goal) for r in ratios]
    for level in (Level.MINIMUM, Level.MISSED):
        # 2.5 % and what comparisons of one run, which share a pool, add to the error of so many
        assert 0.005 < levels.count(level) / len(levels) < 0.04
    assert set(levels) == {Level.MINIMUM, Level.MISSED, Level.UNDECIDED}


def test_a_target_that_its_study_disowns_is_shown_and_counts_as_nothing() -> None:
    own = target("speedup", "baseline", minimum=2.0, disowned="it is another phase's gain")
    analysis, _ = make_run(*FAST, targets=(own, target("speedup", "baseline", minimum=2.0))).analyse()
    disowned, reached = analysis.targets
    assert (disowned.level, reached.level) == (Level.DISOWNED, Level.MINIMUM)
    assert disowned.value == reached.value and disowned.reason == "it is another phase's gain"
    assert analysis.cases[0].stack_level is Level.DISOWNED
    # it hides no miss
    missed = target("speedup", "baseline", minimum=4.0)
    assert make_run(*FAST, targets=(own, missed)).analyse()[0].cases[0].stack_level is Level.MISSED
    # nor a hole
    (hole,) = settle(FAST, target("drift", minimum=1.0, disowned="why"))
    assert hole.level is Level.NONE


def test_a_check_s_number_is_held_against_its_bounds_and_not_its_middle() -> None:
    measured = Quantity(value=0.9, unit="s", low=0.8, high=1.1)
    check = CheckResult(check="epochs", outcome=Outcome.PASS, numbers={"drift": measured})
    (found,) = settle((Phase(name="b", speedup=1.5, checks=(check,)),), target("drift", minimum=1.0))
    assert (found.low, found.value, found.high, found.level) == (0.8, 0.9, 1.1, Level.UNDECIDED)


def test_targets_of_a_part_and_of_a_phase_are_held_against_where_they_end() -> None:
    part = target("speedup", "baseline", minimum=1.5, part="one")
    phase = target("speedup", "parent", minimum=1.9, phase="a")
    analysis, _ = make_run(*FAST, targets=(part, phase), parts=("one", "two")).analyse()
    assert [found.value for found in analysis.targets] == pytest.approx([2.0, 2.0], rel=0.01)
    one, two = analysis.cases[0].parts
    assert (one.variant, one.level, two.variant, two.level) == ("01-a", Level.MINIMUM, "02-b", Level.NONE)
    assert two.speedup is not None and two.speedup.estimate == pytest.approx(3.0, rel=0.01)
    assert {row.phase: row.level for row in analysis.cases[0].rows}["a"] is Level.MINIMUM


def test_what_a_phase_takes_away_is_worth_its_loss() -> None:
    without = Phase(name="without-b", speedup=0.4, parent="b", keep=False)
    elsewhere = Phase(name="elsewhere", speedup=0.5, parent="a", keep=False)
    speedup, memory, other = settle(
        (*FAST, without, elsewhere),
        target("speedup", "without-b", minimum=2.0),
        target("peak_memory_bytes", "without-b", minimum=1.0),
        target("speedup", "elsewhere", minimum=1.0),
    )
    assert speedup.value == pytest.approx(2.5, rel=0.02) and speedup.level is Level.MINIMUM
    assert memory.value == pytest.approx(1.0)
    assert other.value is None and other.reason == "04-elsewhere was not measured beside 02-b"


def test_a_peer_is_held_against_what_it_was_measured_beside() -> None:
    below, beside = settle(
        FAST,
        target("speedup", "numpy", minimum=2.5, phase="a"),
        target("speedup", "numpy", minimum=2.5, phase="b"),
        peers=(Peer(name="numpy", slower=4.0),),
    )
    assert beside.value == pytest.approx(4.0, rel=0.02)
    assert below.value is None and below.reason == "peer numpy was measured beside 02-b, not 01-a"


def test_the_stack_reaches_what_all_of_its_targets_reach() -> None:
    good, bad = target("speedup", "baseline", target=2.5), target("time_s", minimum=1e-5)
    assert make_run(*FAST, targets=(good,)).analyse()[0].cases[0].stack_level is Level.TARGET
    assert make_run(*FAST, targets=(good, bad)).analyse()[0].cases[0].stack_level is Level.MISSED


def test_a_stack_whose_end_is_red_is_judged_at_the_last_that_holds() -> None:
    phases = (FAST[0], Phase(name="b", speedup=1.5, outcome=Outcome.FAIL))
    analysis, _ = make_run(*phases, targets=(target("speedup", "baseline", minimum=1.9),)).analyse()
    assert analysis.cases[0].stack == "01-a"
    assert analysis.targets[0].level is Level.MINIMUM


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        (target("time_s", minimum=1.0, size="small"), "meant for the size small"),
        (target("speedup", "numpy", minimum=1.0), "no row"),
        (target("energy_j_per_item", minimum=1.0), "not recorded"),
        (target("utilisation", minimum=0.9), "not recorded"),
        (target("synchronisations", minimum=0.0), "not recorded"),
        (target("loss", minimum=1.0), "not recorded"),
        (target("scaling_efficiency", minimum=0.8), "more than one rank"),
        (target("speedup", "parent", minimum=1.0, phase="red"), "INVALID"),
        (target("speedup", "parent", minimum=1.0, phase="nowhere"), "does not apply"),
        (target("speedup", "baseline", minimum=1.0, part="empty"), "no kept phase"),
    ],
)
def test_a_target_without_a_value_says_why(goal: PlannedTarget, reason: str) -> None:
    phases = (*FAST, Phase(name="red", outcome=Outcome.FAIL, keep=False))
    (found,) = settle(phases, goal, parts=("empty",))
    assert (found.value, found.level) == (None, Level.NONE)
    assert reason in found.reason


def test_a_profile_without_a_trace_counts_nothing() -> None:
    assert counted(CaseProfile(case="main", count=COUNTS), "launches") is None


def test_one_energy_window_gives_no_interval() -> None:
    (found,) = settle((Phase(name="a", energy=WINDOWS[:1]),), target("energy_j_per_item", minimum=1.0))
    assert (found.level, found.reason) == (Level.NONE, "one energy window gives no interval")


def test_no_floor_without_declared_work() -> None:
    work = CaseWork(case="main", items=1000.0, flops=0.0, bytes=0.0, working_set_bytes=0.0)
    (found,) = settle(FAST, target("floor_fraction", minimum=0.5), work=work)
    assert found.value is None and "declares no work" in found.reason


def test_weak_scaling_keeps_the_time_and_strong_scaling_divides_it() -> None:
    # weak: twice the items in 1 / 0.9 of the time; strong: the same items in 1 / 1.6 of the time
    weak = Phase(name="two", speedup=1.8, items=2000.0, ranks=2, keep=False)
    strong = Phase(name="two", speedup=1.6, ranks=2, keep=False)
    goal = target("scaling_efficiency", minimum=0.75, target=0.85)
    for phase, efficiency, level in ((weak, 0.9, Level.TARGET), (strong, 0.8, Level.MINIMUM)):
        (found,) = settle((phase,), goal)
        assert found.value == pytest.approx(efficiency, rel=0.01)
        assert found.level is level


def test_memory_of_a_baseline_that_was_not_recorded_gives_no_ratio() -> None:
    run: Run = make_run(*FAST, targets=(target("peak_memory_bytes", "baseline", minimum=0.5),))
    record = run.measurements[BASELINE]
    arm = msgspec.structs.replace(record.cases[0].arms[0], peak_memory_bytes=None)
    case = msgspec.structs.replace(record.cases[0], arms=(arm,))
    run.measurements[BASELINE] = msgspec.structs.replace(record, cases=(case,))
    (found,) = run.analyse()[0].targets
    assert found.value is None and BASELINE in found.reason
