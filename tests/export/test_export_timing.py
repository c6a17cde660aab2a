from __future__ import annotations

import pytest

from measure.fakes import Clock, FakeArm
from phasewise.export.timing import time_pair
from phasewise.records.plan import Budget

BUDGET = Budget(min_rounds=12, block_s=0.02, block_steps=5, seconds=100.0)


def test_a_round_holds_one_block_of_each_arm_in_a_drawn_order() -> None:
    clock = Clock()
    eager, export = FakeArm(clock, "eager", noise=0.0), FakeArm(clock, "export", step_s=5e-4, noise=0.0)
    eager_s, export_s = time_pair(eager, export, BUDGET, 3, device="cuda", now=clock.now)
    assert eager_s == pytest.approx([1e-3] * 12) and export_s == pytest.approx([5e-4] * 12)
    blocks = [arm for arm, call, _ in clock.calls if call == "block"][-24:]
    rounds = [tuple(blocks[index : index + 2]) for index in range(0, 24, 2)]
    assert {frozenset(pair) for pair in rounds} == {frozenset({"eager", "export"})}
    assert len(set(rounds)) == 2


def test_on_a_cpu_warming_up_takes_no_block() -> None:
    counts = {}
    for device in ("cpu", "cuda"):
        clock = Clock()
        eager, export = FakeArm(clock, "eager", noise=0.0), FakeArm(clock, "export", noise=0.0)
        time_pair(eager, export, BUDGET, 3, device=device, now=clock.now)
        counts[device] = [clock.count(arm, "block") for arm in ("eager", "export")]
    assert counts["cpu"] == [BUDGET.min_rounds] * 2
    assert min(counts["cuda"]) > BUDGET.min_rounds


def test_rounds_end_when_the_budget_is_spent() -> None:
    clock = Clock()
    eager, export = (FakeArm(clock, name, step_s=20.0) for name in ("eager", "export"))
    eager_s, export_s = time_pair(eager, export, BUDGET, 0, device="cuda", now=clock.now)
    # one step of either to warm up, then rounds of forty seconds
    assert len(eager_s) == len(export_s) == 2
