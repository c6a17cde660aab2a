"""A set of processes is opened: started, built side by side or alone, and warmed up one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from phasewise.measure.inspection import sync_ring
from phasewise.measure.sampling import Sampling, take_failure
from phasewise.records.verdict import Failure
from phasewise.workers.arm import ArmProcesses, Ring
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.warmup import warm_up


def open_set(sampling: Sampling, sure_sets: int) -> None:
    """Start a fresh process for each arm, build them, and warm up one after the other.

    Processes of later sets import meanwhile, up to `sure_sets` sets in all. If all sets fit on the device, those of later
    sets also build beside the first: building takes longer than timing.

    Raises:
        DoNotFit: one runs out of memory beside others; all are closed.
    """
    began = sampling.tools.now()
    sampling.process_set += 1
    sampling.warming_s = 0.0
    arms = sampling.taking_part
    sampling.rng.shuffle(arms)
    for arm in arms:
        # imports of all overlap; nothing is timed now
        sampling.processes.start(arm, sampling.process_set, sure_sets - sampling.process_set)
    built: list[str] = []
    for group in _group(sampling, arms):
        others = sampling.ahead or any(arm in sampling.drivers for arm in built) or len(group) > 1
        prepare_arms(sampling, group, with_others=others, ahead=sampling.ahead and not _is_recorded(sampling, group))
        built += group
    if sampling.ahead and not is_slow(sampling):
        # those that wait are not built yet where a build that goes on record had to be alone
        sampling.processes.open_waiting(_find_ring(sampling))
    sampling.processes.wait()
    sampling.opening_s = max(sampling.opening_s, sampling.tools.now() - began)
    is_next_built = sampling.processes.are_built(sampling.taking_part)
    sampling.seconds_a_set = sampling.warming_s if is_next_built else sampling.opening_s
    sampling.tools.watch.look(sampling.processes.pids)


def _group(sampling: Sampling, arms: Sequence[str]) -> list[list[str]]:
    """Arms that build side by side; each whose build goes on record builds alone, after the others."""
    last = [arm for arm in arms if _is_recorded(sampling, [arm])]
    at_once = [arm for arm in arms if arm not in last]
    return [group for group in (at_once, *([arm] for arm in last)) if group]


def _is_recorded(sampling: Sampling, arms: Sequence[str]) -> bool:
    """Whether a build of `arms` in this set goes on record, so that nothing may run beside it."""
    return sampling.process_set == 0 and any(sampling.logs[arm].entrant.fresh_caches for arm in arms)


def prepare_arms(sampling: Sampling, arms: Sequence[str], *, with_others: bool, ahead: bool = False) -> None:
    """Build `arms` side by side, then warm up one after the other; one that fails takes no part in the rounds.

    With `ahead`, the processes of the sets to come build beside them. Raises DoNotFit as `open_set` does.
    """
    names = ", ".join(sampling.logs[arm].entrant.variant for arm in arms)
    sampling.tools.progress.update(f"{sampling.case}: set {sampling.process_set + 1}, opening {names}")
    at_once = len(arms) + (len(sampling.processes.to_come) if ahead else 0)
    ring = _find_ring(sampling)
    with ThreadPoolExecutor(len(arms) + 1) as pool:
        others = pool.submit(sampling.processes.open_waiting, ring, concurrent_builds=len(arms)) if ahead else None
        answers = list(
            pool.map(partial(_open, ring=ring, concurrent_builds=at_once - 1), [sampling.drivers[arm] for arm in arms])
        )
        if others is not None:
            others.result()
    for arm, answer in zip(arms, answers, strict=True):
        if isinstance(answer, Failure):
            take_failure(sampling, arm, answer, with_others=with_others)
        else:
            sampling.logs[arm].note_opened(answer)
    began = sampling.tools.now()
    for arm in arms:
        if arm in sampling.drivers:
            _warm_up(sampling, arm, with_others=with_others)
    sampling.warming_s += sampling.tools.now() - began


def is_slow(sampling: Sampling) -> bool:
    """Whether an arm is so slow that the number of rounds is fixed; one that takes part once a set does not count."""
    return any(
        log.warmed.step_s > sampling.budget.slow_step_s
        for arm, log in sampling.logs.items()
        if log.takes_part and log.warmed is not None and not sampling.is_rare(arm)
    )


def _find_ring(sampling: Sampling) -> Ring:
    """Where the batches lie now; None where each program makes its own."""
    return None if sampling.judge is None else sampling.judge.list_slots()


def _open(driver: ArmProcesses, *, ring: Ring, concurrent_builds: int) -> dict[str, Any] | Failure:
    try:
        return driver.open(ring=ring, concurrent_builds=concurrent_builds)
    except ProcessFailed as died:
        return died.failure


def _warm_up(sampling: Sampling, arm: str, *, with_others: bool) -> None:
    log, driver, budget = sampling.logs[arm], sampling.drivers[arm], sampling.budget
    try:
        sync_ring(sampling, driver)
        entrant, now = log.entrant, sampling.tools.now
        warmed = entrant.warmed or warm_up(driver, budget, device=entrant.device, cold=entrant.cold, now=now)
    except ProcessFailed as died:
        take_failure(sampling, arm, died.failure, with_others=with_others)
        return
    log.note_warmed(warmed)
    twins = [other.warmed for other in sampling.logs.values() if other.entrant.variant == log.entrant.variant]
    sampling.lengthen(arm, max(twin.block_steps for twin in twins if twin is not None))
