"""What is timed is judged: drawn blocks, changed batches, short blocks of programs with state. No process is started."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fakes import Clock, entrant, plan_fakes, tools
from msgspec.structs import replace as change

from phasewise.measure.sampler import sample_case
from phasewise.model.ratios import stop_rules
from phasewise.model.refusals import find_refusal
from phasewise.records.measure import CaseMeasurement
from phasewise.records.plan import Budget
from phasewise.records.validate import Outcome, TensorError
from phasewise.records.verdict import Reason

BUDGET = Budget(min_rounds=12, max_rounds=24, min_sets=3, max_sets=6, energy_window_s=2.0)
PAIR = [("parent", "variant")]


@dataclass
class FakeJudge:
    """Knows four batches; says of `wrong` that it is wrong from its `since`-th judgement on."""

    wrong: str = ""
    since: int = 1
    device: str = "cpu"
    skip: str = ""
    is_stateful: bool = False
    is_other_problem: bool = False
    steps: int = 4
    batch_s: float = 1e-3
    ring: list[int | None] = field(default_factory=lambda: [0, 1, 2, 3])
    asked: Counter[str] = field(default_factory=Counter)
    fills: list[dict[int, int | None]] = field(default_factory=list)
    states: list[tuple[int, bool]] = field(default_factory=list)

    def list_slots(self) -> None:
        return None

    def fill(self, drivers: Any, entries: dict[int, int | None]) -> None:
        self.fills.append(dict(entries))
        for entry, number in entries.items():
            self.ring[entry] = number
        for driver in drivers:
            driver.refresh(entries)

    def make(self, entries: Any) -> None:
        for entry in entries:
            self.ring[entry] = None

    def put(self, entries: Any) -> None:
        pass

    def rewrite(self, drivers: Any, entries: Any) -> None:
        for driver in drivers:
            driver.refresh(dict.fromkeys(entries))

    def check(self, arm: str, driver: Any, *, entry: int, step: int, state: bool = False) -> tuple[TensorError, ...]:
        assert self.ring[entry] == step
        self.states.append((step, state))
        return self._judge(arm)

    def check_against(self, arm: str, driver: Any, *, entry: int, other: str, theirs: Any) -> tuple[TensorError, ...]:
        assert self.ring[entry] is None and other == "parent" and arm != "parent" and not self.is_other_problem
        return self._judge(arm)

    def compare_arms(self, arm: str, told: Any, *, entry: int, other: str, expected: Any) -> tuple[TensorError, ...]:
        assert self.ring[entry] is None and other == "parent" and arm != "parent" and not self.is_other_problem
        return self._judge(arm)

    def _judge(self, arm: str) -> tuple[TensorError, ...]:
        self.asked[arm] += 1
        is_wrong = arm == self.wrong and self.asked[arm] >= self.since
        return (
            TensorError(
                kind="output", name="y", step=0, elements=1, max_abs=1.0, relative=1.0, worst=9.0 if is_wrong else 0.5,
                outcome=Outcome.FAIL if is_wrong else Outcome.PASS, message="it is off" if is_wrong else "",
            ),
        )  # fmt: skip


def run(
    judge: FakeJudge,
    clock: Clock | None = None,
    *,
    entry: dict[str, Any] | None = None,
    parent: dict[str, Any] | None = None,
    variant: dict[str, Any] | None = None,
    **fake: Any,
) -> CaseMeasurement:
    """`entry`: fields of the variant's entrant; `parent` and `variant` are of these fakes, others of both."""
    clock = clock or Clock()
    arms = [
        entrant(clock, "parent", **{"step_s": 2e-3, **fake, **(parent or {})}),
        entrant(clock, "variant", entry=entry, **{**fake, **(variant or {})}),
    ]
    budget = change(BUDGET, max_sets=3)
    # no clear effect ends it early
    stop = replace(stop_rules(budget), clear=())
    return sample_case("case", plan_fakes(*arms), PAIR, budget, tools(clock), stop=stop, judge=judge)


def replace_outcome(errors: tuple[TensorError, ...]) -> tuple[TensorError, ...]:
    return tuple(change(error, outcome=Outcome.FAIL, message="it is off") for error in errors)


def count_in_sets(case: CaseMeasurement) -> Counter[tuple[str, int]]:
    return Counter((one.arm, one.process_set) for one in case.inspections)


def test_two_blocks_of_each_arm_and_set_are_judged_at_least():
    case = run(FakeJudge())
    found = count_in_sets(case)
    sets = {taken.process_set for taken in case.rounds}
    assert len(sets) == 3 and all(found[arm, number] >= 2 for arm in ("parent", "variant") for number in sets)
    assert all(one.worst == 0.5 and not one.wrong for one in case.inspections)
    assert [arm.outputs_held for arm in case.arms] == [True, True]


@pytest.mark.parametrize("since", [1, 3])
def test_an_arm_whose_timed_result_is_wrong_is_out(since):
    case = run(FakeJudge(wrong="variant", since=since))
    variant = next(arm for arm in case.arms if arm.arm == "variant")
    assert variant.failure is not None and variant.failure.reason is Reason.WRONG_WHEN_TIMED
    assert "output 'y': it is off" in variant.failure.message and variant.outputs_held is False
    assert [one.arm for one in case.inspections if one.wrong] == ["variant"]


def test_batches_are_replaced_but_for_one_and_new_ones_are_judged_by_the_parent():
    judge = FakeJudge()
    case = run(judge)
    replaced = [entries for entries in judge.fills if len(entries) == 3]
    assert len(replaced) >= 6
    assert {number is None for entries in replaced for number in entries.values()} == {True, False}
    assert {one.is_known for one in case.inspections} == {True, False}


@dataclass
class AddressJudge(FakeJudge):
    """Judges a variant that gives what it gave for the first contents of an entry, where the rounds' changes come after all judged blocks."""

    renewed: int | None = None

    def fill(self, drivers: Any, entries: dict[int, int | None]) -> None:
        super().fill(drivers, entries)
        self.renewed = next(iter(entries)) if list(entries.values()) == [None] else None

    def check_against(self, arm: str, driver: Any, *, entry: int, other: str, theirs: Any) -> tuple[TensorError, ...]:
        self.wrong = arm if entry == self.renewed else ""
        return super().check_against(arm, driver, entry=entry, other=other, theirs=theirs)


@dataclass
class RememberedJudge(FakeJudge):
    """Has the variant take twice as long in the one pass that follows new contents."""

    is_new: bool = False

    def fill(self, drivers: Any, entries: dict[int, int | None]) -> None:
        super().fill(drivers, entries)
        self.is_new = len(entries) == self.steps

    def rewrite(self, drivers: Any, entries: Any) -> None:
        super().rewrite(drivers, entries)
        for driver in drivers:
            if driver.name == "variant":
                driver.factor, self.is_new = 2.0 if self.is_new else 1.0, False


def test_a_program_that_goes_by_addresses_is_wrong_by_the_end_of_its_first_set():
    case = run(AddressJudge())
    variant = next(arm for arm in case.arms if arm.arm == "variant")
    assert variant.failure is not None and variant.failure.reason is Reason.WRONG_WHEN_TIMED
    assert [(one.arm, one.process_set) for one in case.inspections if one.wrong] == [("variant", 0)]


def test_where_batches_take_long_to_make_fewer_are_replaced():
    judge = FakeJudge(batch_s=0.15 * BUDGET.seconds)
    case = run(judge)
    assert not [entries for entries in judge.fills if len(entries) > 1] and case.refreshes == case.arrivals == ()


def test_new_contents_are_counted_on_a_cpu_and_timed_on_a_gpu():
    counted, timed = run(FakeJudge()), run(FakeJudge(device="cuda"))
    assert {(pair.unit, pair.fresh, pair.sham) for pair in counted.refreshes} == {("operators", 40.0, 40.0)}
    # the last of several sets would refuse nobody whom the others have not told of
    assert Counter(pair.process_set for pair in counted.refreshes) == {0: 1, 1: 1}
    assert {pair.many for pair in counted.refreshes} == {40.0}
    assert {pair.unit for pair in timed.refreshes} == {"s"} and all(pair.parent > 0 for pair in timed.refreshes)
    sets = Counter(pair.process_set for pair in timed.refreshes)
    assert sets[0] == 8 and set(sets.values()) == {8}


@pytest.mark.parametrize(("drawn", "sets"), [(0.0, {0}), (1.0, {0, 1, 2})])
def test_on_a_gpu_a_set_after_the_first_has_passes_over_new_contents_by_chance(monkeypatch, drawn, sets):
    monkeypatch.setattr("phasewise.measure.inspection.DRAWN_SETS", drawn)
    assert {pair.process_set for pair in run(FakeJudge(device="cuda")).refreshes} == sets


def test_once_a_set_stood_out_all_that_follow_have_passes_over_new_contents(monkeypatch):
    """A program that remembers what it was given takes half as long over contents that it has seen."""
    monkeypatch.setattr("phasewise.measure.inspection.DRAWN_SETS", 0.0)
    case = run(RememberedJudge(device="cuda"))
    assert {pair.process_set for pair in case.refreshes} == {0, 1, 2}
    refused = find_refusal(case)
    assert refused is not None and refused.reason is Reason.REMEMBERS


@pytest.mark.parametrize("operators", [(10, 0, 10), (10, 10, 3)])
def test_operators_are_counted_again_in_every_set_where_they_tell_of_memory(operators):
    case = run(FakeJudge(), operators=operators)
    assert Counter(pair.process_set for pair in case.refreshes) == {0: 8, 1: 8, 2: 8}
    refusal = find_refusal(case)
    assert refusal is not None and refusal.reason is Reason.REMEMBERS


def test_who_has_more_work_with_some_contents_than_with_others_is_not_taken_for_one_that_remembers():
    told, untold = (12, 12, 10), (10, 10, 12)
    case = run(FakeJudge(), operators=(*told, *told, *untold))
    assert Counter(pair.process_set for pair in case.refreshes) == {0: 3, 1: 3, 2: 3}
    assert find_refusal(case) is None


def test_a_variant_whose_result_is_wrong_right_after_new_contents_have_arrived_is_asked_for_nothing_more():
    clock = Clock()
    judge = FakeJudge()
    judge.compare_arms = lambda *told, **others: replace_outcome(judge._judge("variant"))
    case = run(judge, clock=clock)
    failures = {arm.arm: arm.failure for arm in case.arms}
    assert failures["parent"] is None and failures["variant"].reason is Reason.WRONG_WHEN_TIMED
    last = max(at for at, (arm, *_) in enumerate(clock.calls) if arm == "variant")
    assert clock.calls[last][1] in ("deliver", "block") and not clock.count("variant", "placing")


def test_hooks_that_have_come_to_work_take_the_variant_out():
    case = run(FakeJudge(), untimed_work="`outputs`, which is not timed, calls aten::mm")
    failures = {arm.arm: arm.failure for arm in case.arms}
    assert failures["parent"] is None and failures["variant"].reason is Reason.UNTIMED_WORK
    assert "calls aten::mm" in failures["variant"].message


def test_arrivals_are_timed_on_a_cpu_until_results_are_delivered_and_two_of_them_judged():
    clock, judge = Clock(), FakeJudge()
    case = run(judge, clock=clock)
    # who was not late in one set is refused in none
    assert Counter((one.arm, one.process_set) for one in case.arrivals) == {("parent", 0): 16, ("variant", 0): 16}
    # one step of the parent takes 2 ms, and one a pass is enough
    assert {one.steps for one in case.arrivals} == {1}
    taken = {arm: [one.whole_s for one in case.arrivals if one.arm == arm] for arm in ("parent", "variant")}
    assert min(taken["parent"]) > 1.9e-3 > 1.1e-3 > max(taken["variant"]) and {
        one.handing_s for one in case.arrivals
    } == {0.0}
    assert count_in_sets(case)["variant", 0] >= 4
    way = [("refresh", 1), ("block", 1), ("deliver", 0)]
    calls = [call for name, *call in clock.calls if name == "variant"]
    assert sum([tuple(call) for call in calls[at : at + 3]] == way for at in range(len(calls))) >= 16
    assert run(FakeJudge(device="cuda")).arrivals == run(FakeJudge(is_other_problem=True)).arrivals == ()
    assert run(FakeJudge(), entry={"ranks": 2}).arrivals == ()


def test_arrivals_are_timed_in_every_set_while_what_was_saved_is_missing_there():
    case = run(FakeJudge(), variant={"deliver_s": 1e-3})
    assert Counter(one.process_set for one in case.arrivals) == {0: 32, 1: 32, 2: 32}
    refusal = find_refusal(case)
    assert refusal is not None and refusal.reason is Reason.REMEMBERS


def test_what_it_takes_to_collect_garbage_before_a_block_is_missing_from_no_arrival():
    case = run(FakeJudge(), variant={"collect_s": 50e-3})
    assert max(one.whole_s for one in case.arrivals) < 5e-3 and find_refusal(case) is None


@pytest.mark.parametrize("arm", ["parent", "variant"])
def test_arrivals_are_timed_again_while_the_fastest_of_an_arm_differ(arm):
    case = run(FakeJudge(), **{arm: {"deliver_spread_s": 50e-3}})
    assert Counter((one.arm, one.process_set) for one in case.arrivals)["parent", 0] > 16


@dataclass
class WatchedJudge(FakeJudge):
    """Notes how many calls of arms there were before new contents could be seen in their file."""

    clock: Clock = field(default_factory=Clock)
    is_new: bool = False
    seen_at: list[int] = field(default_factory=list)

    def make(self, entries: Any) -> None:
        super().make(entries)
        self.is_new = True

    def put(self, entries: Any) -> None:
        if self.is_new:
            self.seen_at.append(len(self.clock.calls))
        self.is_new = False


def test_a_variant_can_see_new_contents_only_while_they_are_handed_to_it():
    clock = Clock()
    judge = WatchedJudge(clock=clock)
    case = run(judge, clock=clock)
    assert len(judge.seen_at) * 2 == len(case.arrivals) > 0
    # it was woken up before that
    assert all(clock.calls[at][:2] == ("variant", "refresh") for at in judge.seen_at)
    assert all(clock.calls[at - 1][:2] == ("variant", "deliver") for at in judge.seen_at)


def test_arrivals_of_short_steps_are_timed_of_one_and_of_several():
    case = run(FakeJudge(), parent={"step_s": 4e-4}, variant={"step_s": 2e-4})
    assert Counter(one.steps for one in case.arrivals if one.arm == "variant") == {1: 16, 3: 16}


def test_a_warm_up_that_seems_slow_does_not_spare_a_variant_what_others_are_asked():
    case = run(FakeJudge(), variant={"waiting": 2000.0})
    assert case.arrivals and case.refreshes
    last = [sample for sample in case.rounds[-1].samples if sample.arm == "variant"]
    assert last[0].wall_s >= 0.5 * BUDGET.block_s


def test_what_a_variant_with_the_hooks_of_its_parent_takes_longer_to_hand_over_is_not_left_out():
    hands = {"parent": {"deliver_s": 1e-3}, "variant": {"deliver_s": 5e-3}}
    cases = [run(FakeJudge(), entry={"shares_hooks": shares}, **hands) for shares in (False, True)]
    own, shared = ([one.handing_s for one in case.arrivals if one.arm == "variant"] for case in cases)
    assert own == pytest.approx([5e-3] * len(own)) and shared == pytest.approx([1e-3] * len(shared))
    assert [find_refusal(case) is None for case in cases] == [True, False]


def test_a_pass_over_new_contents_and_one_over_old_ones_come_right_after_the_process_has_taken_them_in():
    clock = Clock()
    case = run(FakeJudge(device="cuda"), clock=clock)
    # steps over the old contents for 10 ms, which wake it; the contents; the pass that is timed
    least = {"parent": 5, "variant": 10}
    seen: Counter[str] = Counter()
    for at, (arm, call, steps) in enumerate(clock.calls):
        wakes = call == "block" and steps >= least[arm]
        seen[arm] += wakes and clock.calls[at + 1 : at + 3] == [(arm, "refresh", 4), (arm, "block", 4)]
    assert all(pair.at_once for pair in case.refreshes)
    assert seen["variant"] >= 2 * len(case.refreshes) and seen["parent"] >= len(case.refreshes)


def test_a_peer_that_solves_another_problem_is_never_held_against_the_parent():
    """Contents that its last passes of a set were over are still there in the next one."""
    for _ in range(5):
        case = run(FakeJudge(device="cuda", is_other_problem=True))
        found = count_in_sets(case)
        assert [found["variant", number] >= 2 for number in range(3)] == [True] * 3 and case.refreshes
        assert {one.arm for one in case.inspections} == {"variant"}


def test_of_a_program_with_state_short_blocks_are_judged_from_its_first_batch_on():
    judge = FakeJudge(is_stateful=True)
    case = run(judge)
    assert Counter((one.arm, one.process_set) for one in case.short_blocks) == {
        (arm, number): 5 for arm in ("parent", "variant") for number in range(3)
    }
    assert {1, 4} <= {one.steps for one in case.short_blocks} and max(one.steps for one in case.short_blocks) == 4
    # the state is compared where the reference ends
    assert {state for step, state in judge.states if step == 3} == {True}
    assert {state for step, state in judge.states if step < 3} == {False}


def test_a_variant_alone_may_have_a_state():
    assert run(FakeJudge(), stateful=True).short_blocks


def test_beside_a_peer_that_solves_another_problem_only_the_peer_is_judged():
    judge = FakeJudge(is_other_problem=True)
    run(judge)
    assert judge.asked.keys() == {"variant"}
    assert all(number is not None for entries in judge.fills if len(entries) == 3 for number in entries.values())


def test_without_a_reference_nothing_is_judged():
    judge = FakeJudge(skip="there is none")
    case = run(judge)
    assert not judge.asked and not judge.fills and [arm.outputs_held for arm in case.arms] == [None, None]
