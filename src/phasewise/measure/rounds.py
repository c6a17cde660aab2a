"""What is done to arms that are open: timed in rounds, asked for the rest, closed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from phasewise.measure.arrivals import time_arrivals
from phasewise.measure.inspection import draw_start, finish_inspections, inspect_block, refresh_ring
from phasewise.measure.log import ArmLog
from phasewise.measure.sampling import Sampling, take_failure
from phasewise.records.measure import Round, Sample, Window
from phasewise.workers.arm import ArmProcesses
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.warmup import settling_steps

# single steps take about this long together: 200 of them give a 99th percentile two samples beyond it
SINGLES_S = 2.0
SINGLES = (5, 200)
PLACINGS = 10
PARENT, VARIANT = "parent", "variant"
ALONE_BLOCKS = 5
# a block under this part of the wanted length has the next ones lengthened
SHORT = 0.5
# seconds that a rare arm may step in all
RARE_S = 60.0
# an energy window is planned a little long, since the step time is an estimate
WINDOW_MARGIN = 1.1


def run_round(sampling: Sampling) -> None:
    """One block of every arm in shuffled order, every second round in the reverse of the one before; a rare arm has one block a set.

    Raises:
        DoNotFit: an arm ran out of memory beside others; all are closed, and the round is lost.
    """
    refresh_ring(sampling)
    arms = [arm for arm in sampling.drivers if not (sampling.is_rare(arm) and _has_block(sampling, arm))]
    order = [arm for arm in reversed(sampling.order) if arm in arms]
    if len(sampling.rounds) % 2 == 0 or set(order) != set(arms):
        order = arms
        sampling.rng.shuffle(order)
    sampling.order = order
    samples = [sample for arm in order if (sample := run_block(sampling, arm)) is not None]
    if samples:
        add_round(sampling, samples)


def run_block(sampling: Sampling, arm: str) -> Sample | None:
    """One block of one arm; None if it fails, which takes it out. Raises DoNotFit as `run_round` does."""
    warmed = sampling.logs[arm].warmed
    assert warmed is not None
    first = draw_start(sampling)
    try:
        block = sampling.drivers[arm].block(warmed.block_steps, settling_steps(warmed.block_steps), first)
        inspect_block(sampling, arm, first + warmed.block_steps - 1)
    except ProcessFailed as died:
        take_failure(sampling, arm, died.failure, with_others=sampling.ahead or len(sampling.drivers) > 1)
        return None
    log = sampling.logs[arm]
    log.stepping_s += block["wall_s"]
    is_short = not log.entrant.cold and block["wall_s"] < SHORT * sampling.budget.block_s
    if is_short and log.entrant.warmed is None:
        # it was warmed up in a slow spell
        sampling.lengthen(arm, math.ceil(warmed.block_steps * sampling.budget.block_s / block["wall_s"]))
    return Sample(arm=arm, **block)


def add_round(sampling: Sampling, samples: Sequence[Sample]) -> None:
    """Keep a round, with who else was there."""
    others = sampling.tools.watch.look(sampling.processes.pids)
    sampling.rounds.append(
        Round(
            process_set=sampling.process_set,
            samples=tuple(samples),
            neighbour_load=others.load,
            neighbours=others.processes,
        )
    )


def finish_arm(sampling: Sampling, arm: str, *, is_last: bool = False) -> None:
    """After the rounds of a set: peak memory, and what is still to be judged; in the first set also single steps, placing and energy.

    `is_last`: no set comes after this one.
    """
    log, driver, budget = sampling.logs[arm], sampling.drivers[arm], sampling.budget
    warmed = log.warmed
    assert warmed is not None
    # as its blocks have it, since a warm-up may be slow for its own reasons
    slow = _block_step_s(sampling, arm) > budget.slow_step_s
    try:
        # before the judge has batches replaced and operators counted, which take memory of their own
        log.note_memory(*driver.memory())
        finish_inspections(sampling, arm, slow=slow, is_last=is_last)
        if arm == VARIANT and not slow:
            time_arrivals(sampling)
        if log.failure is not None:
            return
        if not log.step_s and log.entrant.singles and not slow:
            count = max(SINGLES[0], min(SINGLES[1], int(SINGLES_S / warmed.step_s)))
            log.step_s += driver.singles(count)
            log.place_s += driver.placing(PLACINGS)
        if not log.energy and log.entrant.energy and budget.energy_window_s > 0:
            _measure_energy(log, driver, budget.energy_window_s, _block_step_s(sampling, arm))
        log.files |= driver.files()
    except ProcessFailed as died:
        sampling.fail(arm, died.failure)


def ask_all(sampling: Sampling, *, is_last: bool = False) -> None:
    """`finish_arm` for every arm."""
    for arm in list(sampling.drivers):
        finish_arm(sampling, arm, is_last=is_last)


def end_set(sampling: Sampling) -> None:
    """End the processes; a rare arm that would step for over RARE_S with one more set takes no further part."""
    sampling.processes.close()
    for arm in sampling.taking_part:
        log = sampling.logs[arm]
        if sampling.is_rare(arm) and log.stepping_s * (1 + 1 / len(log.build_s)) > RARE_S:
            log.is_spent = True
            sampling.processes.leave([arm])


def _has_block(sampling: Sampling, arm: str) -> bool:
    """Whether it was timed in this set."""
    here = (taken for taken in sampling.rounds if taken.process_set == sampling.process_set)
    return any(sample.arm == arm for taken in here for sample in taken.samples)


def end_last(sampling: Sampling) -> None:
    """End all processes, the parent's last: once it is alone it takes some more blocks."""
    sampling.processes.leave(arm for arm in sampling.logs if arm != PARENT)
    if PARENT in sampling.drivers:
        _time_alone(sampling)
    sampling.processes.close()


def _time_alone(sampling: Sampling) -> None:
    """Some blocks of the parent that no process of the variant can slow down."""
    log, driver = sampling.logs[PARENT], sampling.drivers[PARENT]
    assert log.warmed is not None
    steps = log.warmed.block_steps
    slow = log.warmed.step_s > sampling.budget.slow_step_s
    try:
        for _ in range(1 if slow else ALONE_BLOCKS):
            log.alone_s.append(driver.block(steps, settling_steps(steps))["wall_s"] / steps)
    except ProcessFailed as died:
        sampling.fail(PARENT, died.failure)


def _block_step_s(sampling: Sampling, arm: str) -> float:
    """Seconds of a step in the fastest block: as in an energy window, no step of it is waited for by itself."""
    warmed = sampling.logs[arm].warmed
    assert warmed is not None
    blocks = (
        sample.wall_s / sample.steps for taken in sampling.rounds for sample in taken.samples if sample.arm == arm
    )
    return min(blocks, default=warmed.step_s)


def _measure_energy(log: ArmLog, driver: ArmProcesses, window_s: float, step_s: float) -> None:
    """One window that is long enough; a second, longer try if the first was too short."""
    steps = max(1, math.ceil(WINDOW_MARGIN * window_s / step_s))
    for _ in range(2):
        found = driver.energy(steps)
        if found is None:
            return
        seconds, joules = found
        if seconds >= window_s:
            log.energy.append(Window(steps=steps, seconds=seconds, joules=joules))
            return
        steps = math.ceil(WINDOW_MARGIN * steps * window_s / seconds)
