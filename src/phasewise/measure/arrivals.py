"""How long an arm takes from the arrival of new contents to the delivery of its results, by our own clock.

Counted operators miss code beside torch, and no worker's clock sees work that is done before and after the timed steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from phasewise.judge.case import Judge
from phasewise.measure.inspection import (
    DRAW,
    LEAST,
    PARENT,
    SHARE,
    VARIANT,
    find_judge,
    is_stateful,
    note,
    wake,
)
from phasewise.measure.sampling import Sampling
from phasewise.model.refusals import find_late_work, is_unsettled
from phasewise.records.measure import Arrival
from phasewise.workers.arm import Delivered

# short steps are repeated until a pass takes the parent about this long
PASS_S = 1e-3
# passes of each arm, again while its fastest ones differ, as on a busy machine; the fastest counts
TIMES = 16
AGAIN = 4


@dataclass(frozen=True, kw_only=True)
class Passed:
    """What was handed over to an arm and back."""

    whole_s: float
    # of the steps between, by the arm's clock
    steps_s: float
    # what it delivered
    told: list[Delivered]


def time_arrivals(sampling: Sampling) -> None:
    """Time the variant and its parent on the same new contents; on a CPU only. Raises ProcessFailed."""
    judge = find_judge(sampling)
    if judge is None or judge.device != "cpu" or judge.is_other_problem or is_stateful(sampling, judge, VARIANT):
        return
    if not sampling.drivers.keys() >= {PARENT, VARIANT} or (warmed := sampling.logs[PARENT].warmed) is None:
        return
    if any(sampling.logs[arm].entrant.ranks > 1 for arm in (PARENT, VARIANT)):
        # ranks wake up one after the other, and wait for each other longer than a short pass takes
        return
    if sampling.arrivals and not find_late_work(sampling.snapshot(), VARIANT, least_sets=1):
        # who is refused is late in every set
        return
    steps = min(judge.steps, math.ceil(PASS_S / warmed.step_s))
    # two arms, and contents that are made once and taken in by both
    affordable = int(SHARE * sampling.budget.seconds / (2 * steps * (warmed.step_s + judge.batch_s)))
    times = min(TIMES, affordable)
    if times < LEAST:
        return
    # of several steps only the last one's result is delivered, and whoever knows which that is leaves out the others
    for length in sorted({1, steps}):
        for _ in range(min(AGAIN, affordable // times)):
            if not _time_passes(sampling, judge, length, times):
                return
            if not is_unsettled(sampling.arrivals, sampling.process_set, length):
                break


def _time_passes(sampling: Sampling, judge: Judge, steps: int, times: int) -> bool:
    """Whether the variant was right in those of these passes that were judged."""
    judged = DRAW.sample(range(times), LEAST)
    for number in range(times):
        told = _time_pass(sampling, judge, steps)
        if number in judged:
            # what was delivered in that time has to be right
            expected = told[PARENT][0]
            errors = judge.compare_arms(VARIANT, told[VARIANT], entry=steps - 1, other=PARENT, expected=expected)
            if not note(sampling, VARIANT, errors, is_known=False):
                return False
    return True


def _time_pass(sampling: Sampling, judge: Judge, steps: int) -> dict[str, list[Delivered]]:
    """Time a pass of each arm over the same new contents; what they delivered."""
    handing = {arm: _hand_over(sampling, judge, arm, steps, steps_between=0).whole_s for arm in (PARENT, VARIANT)}
    if sampling.logs[VARIANT].entrant.shares_hooks:
        # what it takes beyond that is work of its own
        handing[VARIANT] = min(handing.values())
    judge.make(range(steps))
    told = {}
    # the second could have seen the contents in their file while the first was timed
    for arm in (VARIANT, PARENT):
        # a program with many objects takes longer to collect garbage, which is no part of a block either
        sampling.drivers[arm].settle(0)
        if wake(sampling, arm, steps):
            _rehearse(sampling, judge, arm, steps)
        passed = _hand_over(sampling, judge, arm, steps, steps_between=steps)
        told[arm] = passed.told
        sampling.arrivals.append(
            Arrival(
                arm=arm, process_set=sampling.process_set, steps=steps, whole_s=passed.whole_s, handing_s=handing[arm],
                steps_s=passed.steps_s,
            )
        )  # fmt: skip
    return told


def _rehearse(sampling: Sampling, judge: Judge, arm: str, steps: int) -> None:
    """A pass over the old contents: collecting garbage has put other memory into the caches."""
    driver = sampling.drivers[arm]
    judge.rewrite([driver], range(steps))
    driver.block_at_once(steps)
    driver.deliver()


def _hand_over(sampling: Sampling, judge: Judge, arm: str, entries: int, *, steps_between: int) -> Passed:
    """Write the ring's contents where an arm can see them, and have it take them in, make `steps_between` steps and deliver."""
    driver, now = sampling.drivers[arm], sampling.tools.now
    start = now()
    judge.put(range(entries))
    judge.rewrite([driver], range(entries))
    steps_s = float(driver.block_at_once(steps_between)["wall_s"]) if steps_between else 0.0
    told = driver.deliver()
    return Passed(whole_s=now() - start, steps_s=steps_s, told=told)
