"""Warming up and choosing the length of a block."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

from measure.fakes import Clock, FakeArm
from phasewise.records.plan import Budget
from phasewise.workers.warmup import settling_steps, warm_up


def test_a_program_that_gets_faster_is_stepped_until_it_is_stable() -> None:
    clock = Clock()
    flat, falling = FakeArm(clock, "flat", noise=0.001), FakeArm(clock, "falling", noise=0.001, cold_start=3.0)
    short = warm_up(flat, Budget(), device="cuda", cold=False, now=clock.now)
    long = warm_up(falling, Budget(), device="cuda", cold=False, now=clock.now)
    assert long.step_s < 1.01e-3
    assert short.warmup_steps <= long.warmup_steps


def test_a_warm_up_lasts_as_long_as_fifteen_blocks_and_no_longer_than_gpu_clocks_need() -> None:
    steps = {}
    for block_s in (1.0, 0.02, 0.01, 0.004):
        clock = Clock()
        arm = FakeArm(clock, "flat", step_s=1e-4, noise=0.0)
        steps[block_s] = warm_up(arm, Budget(block_s=block_s), device="cuda", cold=False, now=clock.now).warmup_steps
    assert 3000 <= steps[1.0] == steps[0.02] <= 3200
    assert 1500 <= steps[0.01] <= 1700 and 600 <= steps[0.004] <= 800


def test_on_a_cpu_no_clock_has_to_rise() -> None:
    clock = Clock()
    arm = FakeArm(clock, "flat", step_s=1e-4, noise=0.0)
    warmed = warm_up(arm, Budget(), device="cpu", cold=False, now=clock.now)
    assert 1500 <= warmed.warmup_steps <= 1700
    # nor is a block needed to know how long one lasts
    assert warmed.block_steps == 200 and not clock.count("flat", "block")


def test_a_program_that_never_settles_is_given_up_after_half_a_minute() -> None:
    clock = Clock()
    restless = FakeArm(clock, "restless", step_s=0.01, noise=0.0)
    slower = iter(range(1, 10**9))
    restless._step = lambda: 0.01 * 1.001 ** next(slower)  # type: ignore[method-assign]
    warm_up(restless, Budget(slow_step_s=1e9), device="cuda", cold=False, now=clock.now)
    assert 30.0 <= clock.seconds < 120.0


def test_a_slow_step_is_made_a_few_times_more_within_seconds_and_is_its_own_block() -> None:
    for step_s, steps in ((30.0, 2), (7.0, 3), (2.0, 4)):
        clock = Clock()
        warmed = warm_up(FakeArm(clock, "slow", step_s=step_s), Budget(), device="cuda", cold=False, now=clock.now)
        assert warmed.warmup_steps == steps and warmed.block_steps == 1, step_s
        assert clock.seconds < (steps - 0.9) * step_s


def test_a_program_that_compiles_a_step_or_two_more_is_not_slow() -> None:
    for compiled in (1, 2):
        clock = Clock()
        arm = FakeArm(clock, "compiled", noise=0.0)
        later = chain([3.0] * compiled, repeat(5e-3))
        arm._step = lambda later=later: next(later)  # type: ignore[method-assign]
        warmed = warm_up(arm, Budget(slow_step_s=0.05), device="cuda", cold=False, now=clock.now)
        assert warmed.step_s == 5e-3 and warmed.block_steps > 1


def test_a_step_that_is_slow_for_its_budget_is_its_own_block() -> None:
    clock = Clock()
    arm = FakeArm(clock, "slow", step_s=0.1)
    assert warm_up(arm, Budget(slow_step_s=0.05), device="cuda", cold=False, now=clock.now).block_steps == 1
    assert warm_up(arm, Budget(slow_step_s=0.15), device="cuda", cold=False, now=clock.now).block_steps == 5


def test_a_first_step_that_still_compiles_does_not_make_a_program_slow() -> None:
    clock = Clock()
    arm = FakeArm(clock, "compiled", noise=0.0)
    arm._step = lambda: 0.5 if arm.steps == 0 and not setattr(arm, "steps", 1) else 1e-3  # type: ignore[method-assign]
    assert warm_up(arm, Budget(), device="cuda", cold=False, now=clock.now).step_s == 1e-3


def test_single_steps_are_not_settled_before() -> None:
    assert settling_steps(1) == 0 and settling_steps(5) == 1


def test_a_disturbed_block_does_not_choose_its_length() -> None:
    """A spell of the host makes one block look long enough: five steps of a microsecond stood beside a twin's thousands once."""
    clock = Clock()
    driver, real = FakeArm(clock, "fast", step_s=1e-4, noise=0.0, waiting=40.0), FakeArm.block
    seen = iter(range(10**9))

    def block(steps: int, settle: int, first: int = 0) -> dict[str, Any]:
        found = real(driver, steps, settle, first)
        return found | {"wall_s": 1.0 if next(seen) == 0 else found["wall_s"]}

    driver.block = block  # type: ignore[method-assign]
    budget = Budget(block_s=0.5)
    warmed = warm_up(driver, budget, device="cuda", cold=False, now=clock.now)
    assert warmed.block_steps * 1e-4 >= 0.9 * budget.block_s
