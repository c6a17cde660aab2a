"""What may be claimed of a stack: its speed-up over the baseline is compared with the A/A floor of its case."""

from __future__ import annotations

import math

import pytest
from synthetic_run import Peer, Phase, Run, make_run

from phasewise.analyse.compare import Comparison, chain
from phasewise.records.analyse import CaseResult
from phasewise.records.plan import PlannedTarget
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level, Reason, Status
from phasewise.stats import Modes
from phasewise.stats.ratio import make_estimate

# two phases of 1.3: together 1.69 times as fast
PHASES = (Phase(name="a", speedup=1.3, part="one"), Phase(name="b", speedup=1.3, part="two"))
GOAL = PlannedTarget(name="speed", metric="speedup", case="main", against="baseline", minimum=1.2, target=1.5)


def told(run: Run) -> CaseResult:
    return run.analyse()[0].cases[0]


@pytest.mark.parametrize("slow_baseline", [False, True], ids=["direct", "chained"])
@pytest.mark.parametrize(
    ("aa", "has_control", "status", "reason"),
    [
        (1.0, True, Status.FASTER, Reason.INTERVAL_CLEARS_FLOOR),
        (4.0, True, Status.INCONCLUSIVE, Reason.BELOW_FLOOR),
        # 10 % is what identical arms may pretend
        (1.0, False, Status.FASTER, Reason.INTERVAL_CLEARS_FLOOR),
    ],
)
def test_a_stack_is_held_against_the_floor(
    aa: float, has_control: bool, status: Status, reason: Reason, slow_baseline: bool
) -> None:
    run = make_run(*PHASES, aa=aa, has_control=has_control, slow_baseline=slow_baseline, parts=("one", "two"))
    case = told(run)
    assert run.rows()["b"].verdict.chained is slow_baseline
    assert case.stack_speedup is not None and case.stack_speedup.low > 1.5
    assert (case.stack_status, case.stack_reason) == (status, reason)
    assert [part.status for part in case.parts] == [status, status]


@pytest.mark.parametrize("slow_baseline", [False, True])
def test_without_a_control_a_stack_of_less_than_ten_per_cent_is_no_claim(slow_baseline: bool) -> None:
    phases = (Phase(name="a", speedup=1.04), Phase(name="b", speedup=1.03))
    case = told(make_run(*phases, has_control=False, slow_baseline=slow_baseline))
    assert (case.stack_status, case.stack_reason) == (Status.INCONCLUSIVE, Reason.BELOW_FLOOR)


@pytest.mark.parametrize("slow_baseline", [False, True])
@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (Phase(name="b", speedup=1.3, dropped=0.5), Reason.THROTTLED),
        (Phase(name="b", speedup=1.01, neighbours=1), Reason.NEIGHBOUR),
        (Phase(name="b", speedup=0.8, bimodal=0.3), Reason.BIMODAL),
    ],
)
def test_what_spoils_a_link_spoils_the_stack(phase: Phase, reason: Reason, slow_baseline: bool) -> None:
    case = told(make_run(PHASES[0], phase, slow_baseline=slow_baseline))
    assert (case.stack_status, case.stack_reason) == (Status.INCONCLUSIVE, reason)


def test_a_gain_that_no_link_can_show_may_be_one_of_the_whole() -> None:
    run = make_run(*(Phase(name=name, speedup=1.07) for name in "abc"), has_control=False)
    assert {run.verdict(name).status for name in "bc"} == {Status.INCONCLUSIVE}
    assert told(run).stack_status is Status.FASTER


def test_a_stack_of_one_phase_has_the_word_of_its_row() -> None:
    for phase in (Phase(name="a", speedup=0.7), Phase(name="a"), Phase(name="a", speedup=1.5, dropped=0.5)):
        run = make_run(phase)
        verdict = run.verdict("a")
        assert (told(run).stack_status, told(run).stack_reason) == (verdict.status, verdict.reason)


def test_a_stack_that_ends_in_the_baseline_claims_nothing() -> None:
    case = told(make_run(Phase(name="a", outcome=Outcome.FAIL)))
    assert (case.stack, case.stack_status) == ("00-baseline", Status.BASELINE)


def test_without_a_speed_up_there_is_no_status() -> None:
    run = make_run(
        Phase(name="a", speedup=2.0, machine="another GPU"), Phase(name="b", speedup=1.5), slow_baseline=True
    )
    assert told(run).stack_speedup is None and told(run).stack_status is None


def test_a_target_above_no_change_is_not_reached_by_what_is_no_claim() -> None:
    time = PlannedTarget(
        name="time", metric="time_s", case="main", against="baseline", better="lower", minimum=0.9, target=0.5
    )
    careful = PlannedTarget(name="careful", metric="speedup", case="main", against="baseline", minimum=0.9)
    high, low = (make_run(*PHASES, aa=aa, targets=(GOAL, time, careful)).analyse()[0] for aa in (1.0, 4.0))
    assert [found.level for found in high.targets] == [Level.TARGET, Level.MINIMUM, Level.MINIMUM]
    assert [found.level for found in low.targets] == [Level.UNDECIDED, Level.UNDECIDED, Level.MINIMUM]
    assert [bool(found.reason) for found in low.targets] == [True, True, False]
    assert "INCONCLUSIVE (below-aa-floor)" in low.targets[0].reason
    assert (high.cases[0].stack_level, low.cases[0].stack_level) == (Level.MINIMUM, Level.UNDECIDED)


def test_neither_scaling_nor_a_peer_is_beaten_by_what_is_no_claim() -> None:
    wide = Phase(name="two", speedup=1.8, ranks=2, keep=False)
    scaling = PlannedTarget(name="scaling", metric="scaling_efficiency", case="main", against="parent", minimum=0.75)
    peer = PlannedTarget(name="peer", metric="speedup", case="main", against="numpy", minimum=1.5)
    for aa, level in ((1.0, Level.MINIMUM), (4.0, Level.UNDECIDED)):
        run = make_run(wide, aa=aa, targets=(scaling, peer), peers=(Peer(name="numpy", slower=2.0),))
        assert [found.level for found in run.analyse()[0].targets] == [level, level]


def test_along_a_chain_all_effects_add_up() -> None:
    def link(ratio: float, **more: object) -> Comparison:
        estimate = make_estimate(
            math.log(ratio), 0.01, 10.0, level=0.95, method="own-sets", rounds=36, sets=3, within_sd=0.01, between_sd=None
        )  # fmt: skip
        return Comparison(against="below", ratio=estimate, **more)  # type: ignore[arg-type]

    modes = Modes(low=0.1, high=0.3, high_share=0.5, explained=0.9)
    quiet, busy = link(2.0), link(1.2, modes=modes, dropped=0.1, neighbours=(0.5, 0.7), cycles=link(1.1).ratio)
    found = chain([busy, quiet])
    assert found.ratio.estimate == pytest.approx(2.4)
    assert found.modes is not None and found.modes.low == pytest.approx(0.1 + math.log(2.0))
    assert found.modes.high == pytest.approx(0.3 + math.log(2.0))
    # where a link has no clocks its time stands for its cycles
    assert found.cycles is not None and found.cycles.estimate == pytest.approx(2.2)
    assert (found.dropped, found.neighbours) == (0.1, (0.5, 0.7))
    assert chain([quiet, quiet]).modes is None and chain([quiet, quiet]).cycles is None
