"""The sampler with fake arms: order, drops, stops, failures and memory, without a process or a sleep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as change

from measure.fakes import Clock, Quiet, entrant, plan_fakes, tools
from phasewise.measure.neighbours import Neighbours
from phasewise.measure.sampler import sample_case, was_killed
from phasewise.model.ratios import estimate_speedup, paired_log_ratios, step_times, stop_rules
from phasewise.model.refusals import find_refusal
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget
from phasewise.records.verdict import Reason
from phasewise.stats import decide_status
from phasewise.workers.failure import TRIES

BUDGET = Budget(min_rounds=12, max_rounds=24, min_sets=3, max_sets=6, energy_window_s=2.0)
PAIR = [("parent", "variant")]
# rules that no clear effect ends early
STEADY = replace(stop_rules(BUDGET), clear=())


def run(
    clock: Clock,
    *entrants: Any,
    budget: Budget = BUDGET,
    pairs: list[tuple[str, str]] = PAIR,
    ahead: bool = False,
    clear: bool = False,
) -> CaseMeasurement:
    """With `clear`, a clear effect ends it early."""
    stop = stop_rules(budget) if clear else replace(stop_rules(budget), clear=())
    return sample_case("case", plan_fakes(*entrants), pairs, budget, tools(clock), stop=stop, ahead=ahead)


def repeat(measure: Callable[[int], CaseMeasurement]) -> CaseMeasurement:
    """As the stage does it."""
    for number in range(TRIES):
        found = measure(number)
        if not was_killed(found):
            break
    return found


def arms_of(case: CaseMeasurement) -> dict[str, Any]:
    return {arm.arm: arm for arm in case.arms}


def test_a_clear_gain_is_found_in_the_fewest_sets_and_the_interval_holds_it() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", step_s=2e-3), entrant(clock, "variant", step_s=1e-3))
    ratio = estimate_speedup(case, BUDGET)
    assert ratio is not None and ratio.low < 2.0 < ratio.high and ratio.high - ratio.low < 0.05
    assert case.stopped == "precise"
    assert {taken.process_set for taken in case.rounds} == {0, 1, 2}
    assert clock.started == 6 and not clock.alive


def test_every_round_has_every_arm_and_the_order_is_shuffled_then_reversed() -> None:
    clock = Clock()
    names = ("baseline", "parent", "variant")
    case = run(clock, *(entrant(clock, name) for name in names))
    orders = [tuple(sample.arm for sample in taken.samples) for taken in case.rounds]
    assert all(sorted(order) == sorted(names) for order in orders)
    assert len(set(orders)) > 2
    firsts = orders[:12]
    assert all(after == before[::-1] for before, after in zip(firsts[::2], firsts[1::2], strict=True))


def test_processes_of_the_sets_that_are_sure_to_come_have_imported_before_the_first_block() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", luck=0.05), entrant(clock, "variant", luck=0.05))
    assert len({taken.process_set for taken in case.rounds}) == 6 and clock.started == 12
    calls = [call for _, call, _ in clock.calls]
    assert calls[: calls.index("block")].count("wait") == 0
    first_round = [at for at, call in enumerate(calls) if call == "open"][1]
    waits = [at for at, call in enumerate(calls) if call == "wait"]
    # two arms of two sets; none of a set that may not come
    assert len([at for at in waits if at < calls.index("memory")]) == 4 and min(waits) > first_round


def test_a_process_that_cannot_import_is_started_again_in_its_turn() -> None:
    clock = Clock()
    parent = entrant(clock, "parent", step_s=2e-3)
    failing = entrant(clock, "variant", fails_in="wait")
    case = run(clock, parent, failing)
    assert case.stopped == "precise" and not clock.alive
    # two that were waited for and died, and three that were opened
    assert clock.count("variant", "wait") == 2 + 1 and clock.count("variant", "open") == 3


def test_where_all_fit_the_sets_to_come_are_built_with_the_first_and_what_is_recorded_builds_last() -> None:
    clock, seen = Clock(), []

    class Known(Quiet):
        def look(self, workers: Iterable[int]) -> Neighbours:
            seen.append((set(workers), set(clock.built)))
            return super().look(())

    fresh = {"fresh_caches": True}
    arms = [entrant(clock, "parent", luck=0.01), entrant(clock, "variant", luck=0.01, entry=fresh)]
    budget = change(BUDGET, max_sets=3)
    case = sample_case("case", plan_fakes(*arms), PAIR, budget, replace(tools(clock), watch=Known()), ahead=True)
    assert len({taken.process_set for taken in case.rounds}) == 3 and clock.started == 6 and not clock.alive
    opened = [(arm, number) for arm, call, number in clock.calls if call == "open"]
    calls = [call for _, call, _ in clock.calls]
    assert calls[: calls.index("memory")].count("open") == 6 == len(opened)
    # nothing is built beside the variant's first process, which has empty caches
    first = min(number for arm, number in opened if arm == "variant")
    assert opened[-1] == ("variant", first)
    # the others share the cores of their GPU meanwhile
    assert clock.beside == [4] * 5 + [0]
    # all that is on the device is known to be ours
    assert seen and all(workers == built for workers, built in seen)
    assert [len(arms_of(case)[arm].build_s) for arm in ("parent", "variant")] == [3, 3]


def test_one_of_a_later_set_that_does_not_fit_is_built_in_its_turn() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", most_built=4), entrant(clock, "variant", most_built=4), ahead=True)
    assert len({taken.process_set for taken in case.rounds}) >= 3 and not clock.alive
    assert [arm.failure for arm in case.arms] == [None, None]


def test_a_slow_arm_alone_is_not_built_for_sets_that_will_not_come() -> None:
    clock = Clock()
    fresh = {"fresh_caches": True}
    case = run(clock, entrant(clock, "variant", step_s=2.0, entry=fresh), pairs=[], ahead=True)
    assert case.stopped == "slow" and clock.count("variant", "open") == 1 and not clock.alive
    clock = Clock()
    case = run(clock, entrant(clock, "variant", entry=fresh), pairs=[], ahead=True)
    assert case.stopped == "alone" and clock.count("variant", "open") == 3
    calls = [call for _, call, _ in clock.calls]
    assert calls[: calls.index("memory")].count("open") == 3


def test_what_was_built_already_is_no_time_that_a_set_takes() -> None:
    clock = Clock()
    noisy = {"luck": 0.01, "noise": 0.05}
    budget = change(BUDGET, max_sets=3, seconds=24.0)
    # six builds of 3 s leave too little for another such set
    case = run(clock, entrant(clock, "parent", **noisy), entrant(clock, "variant", **noisy), budget=budget, ahead=True)
    assert len({taken.process_set for taken in case.rounds}) == 3


def test_what_is_measured_builds_last_in_the_first_set() -> None:
    clock = Clock()
    fresh = entrant(clock, "variant", entry={"fresh_caches": True})
    run(clock, fresh, entrant(clock, "parent"), budget=Budget(min_sets=2, max_sets=2))
    opened = [arm for arm, call, _ in clock.calls if call == "open"]
    assert opened[:2] == ["parent", "variant"] and sorted(opened[2:]) == ["parent", "variant"]


@pytest.mark.parametrize(("gain", "sets"), [(4.0, 1), (2.0, 2), (1.2, 3)])
def test_a_clear_effect_ends_it_in_one_set_or_two(gain: float, sets: int) -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", step_s=gain * 1e-3), entrant(clock, "variant"), clear=True)
    assert (case.stopped == "clear") is (gain > 1.5) and len(paired_log_ratios(case, "parent", "variant")) == sets
    # nothing was started that did not take part
    assert clock.started == 2 * sets and not clock.alive
    ratio = estimate_speedup(case, BUDGET)
    assert ratio is not None and ratio.sets == sets
    assert decide_status(ratio, aa_floor=0.0).status == "FASTER"


def test_one_round_that_is_not_beyond_it_ends_nothing_early() -> None:
    clock = Clock()
    noisy = entrant(clock, "variant", noise=0.25)
    case = run(clock, entrant(clock, "parent", step_s=4e-3), noisy, clear=True)
    assert len(paired_log_ratios(case, "parent", "variant")) > 1


def test_a_clear_effect_whose_only_set_is_suspicious_gets_another() -> None:
    """Its own clock is behind the parent's: one set may be a spell of the host, two refuse it."""
    clock = Clock()
    late = entrant(clock, "variant", sensors=lambda block: {"parent_s": 0.1})
    case = run(clock, entrant(clock, "parent", step_s=4e-3, sensors=lambda block: {"parent_s": 0.02}), late, clear=True)
    assert case.stopped == "clear" and len(paired_log_ratios(case, "parent", "variant")) == 2
    refusal = find_refusal(case)
    assert refusal is not None and refusal.reason is Reason.STOPWATCH


def test_a_slow_arm_of_a_headline_gets_one_block_a_set_and_a_minute_in_all() -> None:
    once = {"once_if_slow": True}
    for step_s, sets in ((1.5, 3), (9.0, 2), (25.0, 1), (0.5, 3)):
        clock = Clock()
        case = run(
            clock,
            entrant(clock, "baseline", step_s=step_s, entry=once),
            entrant(clock, "variant"),
            budget=Budget(min_sets=3, max_sets=3),
            pairs=[("baseline", "variant")],
        )
        blocks = [len(taken) for taken in step_times(case, "baseline")]
        assert len(blocks) == sets and (set(blocks) == {1}) is (step_s > 1), step_s
        # ours is timed in all rounds and sets
        assert all(arm.failure is None for arm in case.arms)
        assert len(step_times(case, "variant")[0]) == 12
        assert not clock.alive


def test_a_baseline_that_cannot_run_leaves_the_others_together() -> None:
    clock = Clock()
    case = run(
        clock,
        entrant(clock, "baseline", fails_in="open", reason=Reason.OUT_OF_MEMORY),
        entrant(clock, "parent"),
        entrant(clock, "variant"),
    )
    assert arms_of(case)["baseline"].failure.reason is Reason.OUT_OF_MEMORY
    assert all(len(taken.samples) == 2 for taken in case.rounds)


def test_the_parent_takes_its_last_blocks_alone() -> None:
    clock = Clock()
    alive: list[int] = []

    def count_alive(block: int) -> dict[str, Any]:
        alive.append(len(clock.alive))
        return {}

    parent = entrant(clock, "parent", step_s=2e-3, sensors=count_alive)
    case = run(clock, parent, entrant(clock, "variant", step_s=1e-3))
    alone = arms_of(case)["parent"].alone_s
    assert alone == pytest.approx([2e-3] * 5, rel=0.02)
    assert arms_of(case)["variant"].alone_s == ()
    # nobody else was left who could disturb them
    assert [(arm, call) for arm, call, _ in clock.calls[-5:]] == [("parent", "block")] * 5
    assert alive[-5:] == [1] * 5


def test_a_parent_that_dies_alone_is_no_harm_to_what_was_timed() -> None:
    clock = Clock()
    blocks = 3 * 12 + 1
    arms = (entrant(clock, "parent", step_s=2e-3, fails_in="block", fails_at=blocks), entrant(clock, "variant"))
    case = run(clock, *arms)
    assert estimate_speedup(case, BUDGET) is not None


def test_noisy_processes_get_more_sets_up_to_the_limit() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", luck=0.05), entrant(clock, "variant", luck=0.05))
    assert case.stopped == "limit"
    assert {taken.process_set for taken in case.rounds} == set(range(6))


def test_nothing_is_started_that_the_budget_cannot_finish() -> None:
    clock = Clock()
    budget = Budget(min_sets=3, max_sets=6, seconds=12.0)
    case = run(clock, entrant(clock, "parent", luck=0.05), entrant(clock, "variant", luck=0.05), budget=budget)
    assert case.stopped == "budget"
    assert clock.seconds < 16.0 and len(case.rounds) >= 12


def test_blocks_last_long_enough_and_long_steps_are_blocks_of_their_own() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", step_s=0.25), entrant(clock, "variant", step_s=1e-4))
    steps = {sample.arm: sample.steps for sample in case.rounds[0].samples}
    walls = [sample.wall_s for taken in case.rounds for sample in taken.samples if sample.arm == "variant"]
    assert steps["parent"] == 1 and steps["variant"] >= 180
    assert min(walls) > 0.9 * BUDGET.block_s


def test_cold_steps_are_blocks_of_one() -> None:
    clock = Clock()
    case = run(clock, *(entrant(clock, arm, entry={"cold": True}) for arm in ("parent", "variant")))
    assert {sample.steps for taken in case.rounds for sample in taken.samples} == {1}


def test_ratios_are_of_time_per_item() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent"), entrant(clock, "variant", items=4.0))
    ratio = estimate_speedup(case, BUDGET)
    assert ratio is not None and ratio.estimate == pytest.approx(4.0, rel=0.02)


def test_an_arm_that_fails_leaves_the_others_to_go_on() -> None:
    clock = Clock()
    case = run(
        clock,
        entrant(clock, "baseline", fails_in="block", fails_at=10),
        entrant(clock, "parent", step_s=2e-3),
        entrant(clock, "variant"),
    )
    baseline = arms_of(case)["baseline"]
    assert baseline.failure is not None and baseline.failure.reason is Reason.CRASH
    assert case.stopped == "precise" and len(paired_log_ratios(case, "parent", "variant")) == 3
    assert 0 < len(step_times(case, "baseline")[0]) < 12


def test_a_comparison_ends_with_a_process_that_was_killed_and_is_made_again() -> None:
    clock = Clock()
    tries = []

    def measure(number: int) -> CaseMeasurement:
        tries.append(number)
        killed = {"fails_in": "block", "fails_at": 20, "reason": Reason.KILLED} if number == 0 else {}
        arms = entrant(clock, "parent", step_s=2e-3), entrant(clock, "variant", **killed)
        return sample_case("case", plan_fakes(*arms), PAIR, BUDGET, tools(clock), stop=STEADY, ends_if_killed=True)

    case = repeat(measure)
    assert tries == [0, 1] and not clock.alive
    assert all(arm.failure is None for arm in case.arms)
    # none of the rounds that were lost
    assert case.stopped == "precise" and len(paired_log_ratios(case, "parent", "variant")) == 3


def test_one_that_is_killed_each_time_is_told_and_the_others_go_on() -> None:
    clock = Clock()
    tries = []

    def measure(number: int) -> CaseMeasurement:
        tries.append(number)
        killed = entrant(clock, "baseline", fails_in="block", reason=Reason.KILLED)
        arms = killed, entrant(clock, "parent", step_s=2e-3), entrant(clock, "variant")
        ends_if_killed = number + 1 < TRIES
        found = sample_case(
            "case", plan_fakes(*arms), PAIR, BUDGET, tools(clock), stop=STEADY, ends_if_killed=ends_if_killed
        )
        assert number + 1 == TRIES or found.stopped == "failed"
        return found

    case = repeat(measure)
    assert tries == list(range(TRIES))
    assert arms_of(case)["baseline"].failure.reason is Reason.KILLED
    assert case.stopped == "precise" and len(paired_log_ratios(case, "parent", "variant")) == 3


def test_a_variant_whose_parent_cannot_run_is_timed_alone() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", fails_in="open", reason=Reason.TIMEOUT), entrant(clock, "variant"))
    assert case.stopped == "alone"
    assert paired_log_ratios(case, "parent", "variant") == []
    assert [len(times) for times in step_times(case, "variant")] == [12, 12, 12]


def test_a_variant_that_fails_ends_the_comparison() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent"), entrant(clock, "variant", fails_in="open"))
    assert case.stopped == "failed" and case.rounds == () and not clock.alive
    assert arms_of(case)["variant"].failure.message == "variant broke"


def test_arms_that_do_not_fit_together_run_in_processes_one_after_the_other() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", step_s=2e-3, most_built=1), entrant(clock, "variant", most_built=1))
    ratio = estimate_speedup(case, BUDGET)
    assert all(arm.failure is None for arm in case.arms)
    assert ratio is not None and ratio.low < 2.0 < ratio.high and ratio.sets >= 3
    assert not clock.alive


def test_an_arm_that_runs_out_of_memory_on_a_cpu_is_not_timed_alone_where_nobody_could_clock_it_on_new_contents() -> (
    None
):
    clock, on_cpu = Clock(), {"device": "cpu"}
    arms = (entrant(clock, "parent", entry=on_cpu), entrant(clock, "variant", entry=on_cpu, most_built=1))
    case = run(clock, *arms)
    failure = arms_of(case)["variant"].failure
    assert failure is not None and failure.reason is Reason.OUT_OF_MEMORY
    assert estimate_speedup(case, BUDGET) is None and not clock.alive


def test_an_arm_that_does_not_fit_alone_is_out_of_memory() -> None:
    clock = Clock()
    case = run(clock, entrant(clock, "parent", most_built=0), entrant(clock, "variant"))
    failure = arms_of(case)["parent"].failure
    assert failure is not None and failure.reason is Reason.OUT_OF_MEMORY
    assert case.stopped == "alone"


def test_two_process_groups_never_live_at_once() -> None:
    clock = Clock()
    group = {"ranks": 2}
    case = run(clock, *(entrant(clock, arm, entry=group, most_built=1) for arm in ("parent", "variant")))
    assert all(arm.failure is None for arm in case.arms)
    opens = [arm for arm, call, _ in clock.calls if call == "open"]
    assert len(opens) >= 6 and not clock.alive


def test_a_slow_arm_is_compared_in_few_rounds_of_one_set() -> None:
    clock = Clock()
    budget = Budget(seconds=60.0)
    case = run(clock, entrant(clock, "parent", step_s=20.0), entrant(clock, "variant"), budget=budget)
    assert case.stopped == "slow" and len(case.rounds) == 2
    ratio = estimate_speedup(case, budget)
    assert ratio is not None and ratio.estimate == pytest.approx(20_000, rel=0.05)


def test_a_slow_arm_is_compared_in_fresh_processes_as_far_as_the_seconds_go() -> None:
    for seconds, sets in ((60.0, 3), (12.0, 2), (10.0, 1)):
        clock = Clock()
        budget = Budget(seconds=seconds, slow_step_s=0.05)
        case = run(clock, entrant(clock, "parent", step_s=0.1), entrant(clock, "variant"), budget=budget)
        counts = Counter(taken.process_set for taken in case.rounds)
        assert case.stopped == "slow" and len(counts) == sets, (seconds, counts)
        assert max(counts.values()) <= budget.min_rounds


@pytest.mark.parametrize(("ahead", "sets"), [(True, 3), (False, 1)])
def test_what_the_first_set_takes_to_build_is_not_of_the_budget(ahead: bool, sets: int) -> None:
    """Those built beside it are used; others would have to build as long again."""
    clock = Clock()
    arms = [entrant(clock, name, opening_s=30.0) for name in ("parent", "variant")]
    case = run(clock, *arms, budget=change(BUDGET, seconds=30.0, energy_window_s=0.0, max_sets=3), ahead=ahead)
    assert len({taken.process_set for taken in case.rounds}) == sets


def test_rounds_with_a_fallen_clock_are_dropped_and_replaced() -> None:
    clock = Clock()

    def sensors(block: int) -> dict[str, Any]:
        return {"sm_clock_mhz": 1000.0 if block == 5 else 1900.0}

    case = run(clock, entrant(clock, "parent", step_s=2e-3, sensors=sensors), entrant(clock, "variant"))
    dropped = [taken for taken in case.rounds if taken.dropped]
    assert len(dropped) == 3 and "clock of parent" in dropped[0].dropped
    assert min(len(rounds) for rounds in paired_log_ratios(case, "parent", "variant")) == 12


def test_the_rest_is_asked_for_once_and_memory_after_every_set() -> None:
    clock = Clock()
    case = run(
        clock,
        entrant(clock, "parent", step_s=2e-3),
        entrant(clock, "variant", entry={"singles": True, "energy": True}),
    )
    variant, parent = arms_of(case)["variant"], arms_of(case)["parent"]
    assert len(variant.step_s) == 200 and len(variant.place_s) == 10 and parent.step_s == ()
    assert [window.seconds >= 2.0 for window in variant.energy] == [True]
    assert clock.count("variant", "memory") == 3 and variant.outputs_held is None and parent.outputs_held is None
    assert variant.peak_memory_bytes > 1000 and len(variant.build_s) == len(variant.warmup_steps) == 3


def test_one_energy_window_is_enough_where_single_steps_wait_for_each_other() -> None:
    clock = Clock()
    case = run(
        clock, entrant(clock, "parent", step_s=2e-3), entrant(clock, "variant", waiting=3.0, entry={"energy": True})
    )
    assert clock.count("variant", "energy") == 1
    assert arms_of(case)["variant"].energy[0].seconds >= 2.0


def test_the_same_seed_gives_the_same_order() -> None:
    orders = []
    for _ in range(2):
        clock = Clock()
        case = run(clock, entrant(clock, "parent"), entrant(clock, "variant"))
        orders.append([tuple(sample.arm for sample in taken.samples) for taken in case.rounds[:12]])
    assert orders[0] == orders[1]


def test_both_arms_of_a_control_have_blocks_of_one_length() -> None:
    """A warm-up in a slow spell chose five steps, and the twin's 296: what a block costs beside its steps made a ratio of 12."""
    clock = Clock()
    arms = [entrant(clock, "twin", step_s=1e-3), entrant(clock, "variant", step_s=1e-4)]
    same = [replace(arm, variant="02-x") for arm in arms]
    case = run(clock, *same, pairs=[("twin", "variant")], budget=change(BUDGET, max_sets=3))
    for taken in case.rounds:
        assert len({sample.steps for sample in taken.samples}) == 1


def test_a_block_that_comes_out_short_is_lengthened() -> None:
    clock = Clock()
    warm = entrant(clock, "variant", step_s=1e-4, waiting=200.0)
    case = run(clock, entrant(clock, "parent", step_s=1.2e-4), warm, budget=change(BUDGET, max_sets=3))
    walls = [sample.wall_s for taken in case.rounds[1:] for sample in taken.samples if sample.arm == "variant"]
    assert min(walls) >= 0.5 * BUDGET.block_s
