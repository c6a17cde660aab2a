from __future__ import annotations

import pytest

from phasewise.export.timing import time_pair, warm_up
from phasewise.records.plan import Budget


class FakeArm:
    """Calls of `seconds` each on a clock of its own making; remembers its blocks."""

    def __init__(self, name: str, seconds: float, diary: list[tuple[str, int]]) -> None:
        self.name, self.seconds, self.diary, self.spent = name, seconds, diary, 0.0

    def __call__(self, steps: int) -> float:
        self.diary.append((self.name, steps))
        self.spent += steps * self.seconds
        return steps * self.seconds


BUDGET = Budget(min_rounds=12, block_s=0.02, block_steps=5, seconds=100.0)


def test_a_round_holds_one_block_of_each_arm_in_a_drawn_order() -> None:
    diary: list[tuple[str, int]] = []
    eager, export = FakeArm("eager", 1e-3, diary), FakeArm("export", 5e-4, diary)
    eager_s, export_s = time_pair(eager, export, BUDGET, 3, clock=lambda: 0.0)
    assert eager_s == pytest.approx([1e-3] * 12) and export_s == pytest.approx([5e-4] * 12)
    rounds = [tuple(name for name, _ in diary[-24:][index : index + 2]) for index in range(0, 24, 2)]
    assert {frozenset(pair) for pair in rounds} == {frozenset({"eager", "export"})}
    assert len(set(rounds)) == 2


def test_blocks_last_long_enough_and_long_calls_are_timed_one_by_one() -> None:
    assert warm_up(FakeArm("short", 1e-4, []), BUDGET) == 200
    assert warm_up(FakeArm("middle", 0.1, []), BUDGET) == 5
    assert warm_up(FakeArm("long", 0.5, []), BUDGET) == 1


def test_rounds_end_when_the_budget_is_spent() -> None:
    eager, export = FakeArm("eager", 20.0, []), FakeArm("export", 20.0, [])
    eager_s, export_s = time_pair(eager, export, BUDGET, 0, clock=lambda: eager.spent + export.spent)
    assert len(eager_s) == len(export_s) == 1
