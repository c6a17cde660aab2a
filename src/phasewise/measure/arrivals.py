"""From when new contents are handed to a process until its results are handed back, by our own clock.

Operators tell nothing of code beside torch, nor of work that a process does before and after the steps that it is asked to time.
"""

from __future__ import annotations

import math

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
from phasewise.model.refusals import find_late_work
from phasewise.records.measure import Arrival
from phasewise.workers.arm import Delivered

# where steps are short, so many that they take the parent about so long
PASS_S = 1e-3
# the fastest of so many tells
TIMES = 16


def time_arrivals(sampling: Sampling) -> None:
    """On a CPU, the variant and its parent on the same new contents. Raises ProcessFailed."""
    judge = find_judge(sampling)
    if judge is None or judge.device != "cpu" or judge.is_other_problem or is_stateful(sampling, judge, VARIANT):
        return
    if not sampling.drivers.keys() >= {PARENT, VARIANT} or (warmed := sampling.logs[PARENT].warmed) is None:
        return
    if any(sampling.logs[arm].entrant.ranks > 1 for arm in (PARENT, VARIANT)):
        # ranks that have waited wake up one after the other, and to meet takes them longer than a short pass
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
    judged = DRAW.sample(range(times), LEAST)
    for number in range(times):
        handing = {arm: _hand_over(sampling, judge, arm, steps, steps_between=0)[0] for arm in (PARENT, VARIANT)}
        judge.fill([], dict.fromkeys(range(steps)))
        told = {}
        for arm in DRAW.sample((PARENT, VARIANT), 2):
            wake(sampling, arm, steps)
            whole_s, told[arm] = _hand_over(sampling, judge, arm, steps, steps_between=steps)
            sampling.arrivals.append(
                Arrival(arm=arm, process_set=sampling.process_set, steps=steps, whole_s=whole_s, handing_s=handing[arm])
            )
        if number in judged:
            # what was handed back in that time has to be there
            errors = judge.compare_arms(VARIANT, told[VARIANT], entry=steps - 1, other=PARENT, expected=told[PARENT][0])
            if not note(sampling, VARIANT, errors, is_known=False):
                return


def _hand_over(
    sampling: Sampling, judge: Judge, arm: str, entries: int, *, steps_between: int
) -> tuple[float, list[Delivered]]:
    """Seconds to give an arm the contents that the ring has now, have it make so many steps, and take what the last one gave."""
    driver, now = sampling.drivers[arm], sampling.tools.now
    start = now()
    judge.rewrite([driver], range(entries))
    if steps_between:
        driver.block(steps_between, 0, 0)
    told = driver.deliver()
    return now() - start, told
