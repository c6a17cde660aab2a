"""What is timed is judged: which block is drawn after it has ended, and batches change under the program's feet.

The rules that say what the samples amount to are in model/refusals.py.
"""

from __future__ import annotations

import math
import random

from phasewise.judge.case import Judge
from phasewise.measure.sampling import Sampling
from phasewise.model.refusals import find_memory, find_repeats, tells_of_memory
from phasewise.records.measure import Inspection, Refresh, ShortBlock
from phasewise.records.validate import Outcome, TensorError
from phasewise.records.verdict import Failure, Reason
from phasewise.workers.arm import ArmProcesses

# what a plan can't foretell
DRAW = random.SystemRandom()
# blocks of each arm and set that are judged, at least
LEAST = 2
# of a program with state, so many of at most as many steps as the reference follows; one of a slow program
SHORT_BLOCKS = 5
# after so many rounds all batches but one are replaced
REFRESH_ROUNDS = 4
# pairs of new contents and the same contents written once more, a set
PAIRS = 8
# a set after the first has them with this chance, since they take as long as its rounds; no program can tell which sets have them
DRAWN_SETS = 0.5
# where operators are counted, which knows no noise, there is time for two, and one is made. While all tell of memory there are more, up to PAIRS:
# where work depends on the contents, new ones take more of it than others in up to half of the pairs, and in all of eight once in 256 times
COUNTED_PAIRS = 2
# passes in a row whose operators are counted together
MANY = 4
# new contents that a process has passed over before it is asked: what is compiled once a shape has then been compiled
WARM_PASSES = 3
# after so long a process has woken up; a pass that takes longer is hardly slower for a wait before it
WAKING_S = 10e-3
# of a comparison's seconds, for making batches, and as much again for passes from arrival to delivery
SHARE = 0.1
PARENT, VARIANT = "parent", "variant"


def draw_start(sampling: Sampling) -> int:
    """The entry of the ring that a block begins with."""
    return 0 if sampling.judge is None or sampling.judge.skip else DRAW.randrange(sampling.judge.steps)


def sync_ring(sampling: Sampling, driver: ArmProcesses) -> None:
    """Give a process that has been built the batches that the others have now."""
    if (judge := find_judge(sampling)) is not None:
        judge.rewrite([driver], range(judge.steps))


def refresh_ring(sampling: Sampling) -> None:
    """Every fourth round all batches but one are replaced in all processes: half of them by such with a known result."""
    judge = find_judge(sampling)
    here = _count_rounds(sampling)
    if judge is None or not sampling.drivers or here == 0 or here % REFRESH_ROUNDS:
        return
    kept = DRAW.randrange(judge.steps)
    entries = [entry for entry in range(judge.steps) if entry != kept]
    count = min(len(entries), _count_affordable(sampling, judge))
    chosen = DRAW.sample(entries, count)
    judge.fill(list(sampling.drivers.values()), {entry: _draw_batch(sampling, judge) for entry in chosen})


def inspect_block(sampling: Sampling, arm: str, step: int) -> None:
    """Judge what a block gave that ended with this step, if it is drawn. Raises ProcessFailed."""
    judge = find_judge(sampling, arm)
    if judge is None or is_stateful(sampling, judge, arm):
        return
    expected = 1 if sampling.is_rare(arm) else max(sampling.budget.min_rounds, LEAST)
    if DRAW.random() * expected < LEAST:
        _inspect(sampling, judge, arm, step % judge.steps)


def finish_inspections(sampling: Sampling, arm: str, *, slow: bool, is_last: bool) -> None:
    """After the rounds of a set: what is left to be judged of an arm. Raises ProcessFailed."""
    judge = find_judge(sampling, arm)
    if judge is None:
        return
    driver = sampling.drivers[arm]
    if is_stateful(sampling, judge, arm):
        _judge_short_blocks(sampling, judge, arm, 1 if slow else SHORT_BLOCKS)
    else:
        seen = sum(one.arm == arm and one.process_set == sampling.process_set for one in sampling.inspections)
        for _ in range(0 if slow and seen else LEAST - seen):
            entry = DRAW.randrange(judge.steps)
            if judge.ring[entry] is None:
                judge.fill(list(sampling.drivers.values()), {entry: DRAW.randrange(judge.steps)})
            driver.block(1, 0, entry)
            _inspect(sampling, judge, arm, entry)
            if arm not in sampling.drivers:
                return
        if arm == VARIANT and not slow:
            _inspect_renewed(sampling, judge, arm)
    if arm == VARIANT and arm in sampling.drivers and not slow:
        if _looks_again(sampling, judge, is_last=is_last):
            _compare_refreshes(sampling, judge, driver)
        # the gate has looked at them too, before the program had made many steps
        told = driver.apply("phasewise.bench.hooks:look_at_hooks", str) if judge.device == "cpu" else []
        if problem := next(filter(None, told), ""):
            sampling.fail(arm, Failure(reason=Reason.UNTIMED_WORK, message=problem))


def _inspect_renewed(sampling: Sampling, judge: Judge, arm: str) -> None:
    """Judge a step on contents that were just put in the place of others: who goes by the address gives what it gave before.

    Which blocks of the rounds are judged is drawn, and all of them may have come before the first such change. Contents of the pool may
    have been there when the address was seen first; new ones were not.
    """
    if _count_affordable(sampling, judge) == 0:
        return
    entry = DRAW.randrange(judge.steps)
    is_told = PARENT in sampling.drivers and not judge.is_other_problem
    number = None if is_told else DRAW.randrange(judge.steps)
    judge.fill(list(sampling.drivers.values()), {entry: number})
    sampling.drivers[arm].block(1, 0, entry)
    _inspect(sampling, judge, arm, entry)


def _judge_short_blocks(sampling: Sampling, judge: Judge, arm: str, count: int) -> None:
    """Blocks of one step and of all that the reference follows, or of a length between them, from the initial state."""
    driver = sampling.drivers[arm]
    judge.fill(
        list(sampling.drivers.values()), {entry: entry for entry in range(judge.steps) if judge.ring[entry] != entry}
    )
    lengths = [judge.steps, 1, judge.steps, 1, *(DRAW.randint(1, judge.steps) for _ in range(count))][:count]
    for steps in DRAW.sample(lengths, len(lengths)):
        block = driver.block(steps, 0, 0)
        sampling.short_blocks.append(
            ShortBlock(arm=arm, process_set=sampling.process_set, steps=steps, wall_s=block["wall_s"])
        )
        errors = judge.check(arm, driver, entry=steps - 1, step=steps - 1, state=steps == judge.steps)
        if not note(sampling, arm, errors, is_known=True):
            return


def _inspect(sampling: Sampling, judge: Judge, arm: str, entry: int) -> None:
    driver, number = sampling.drivers[arm], judge.ring[entry]
    if number is not None:
        note(sampling, arm, judge.check(arm, driver, entry=entry, step=number), is_known=True)
    elif arm != PARENT and PARENT in sampling.drivers and not judge.is_other_problem:
        theirs = sampling.drivers[PARENT]
        errors = judge.check_against(arm, driver, entry=entry, other=PARENT, theirs=theirs)
        note(sampling, arm, errors, is_known=False)


def note(sampling: Sampling, arm: str, errors: tuple[TensorError, ...], *, is_known: bool) -> bool:
    """Keep what was found; an arm that is wrong is out. Whether it is right."""
    wrong = next((f"{one.kind} {one.name!r}: {one.message}" for one in errors if one.outcome is Outcome.FAIL), "")
    worst = max((one.worst for one in errors if one.worst is not None), default=None)
    sampling.inspections.append(
        Inspection(arm=arm, process_set=sampling.process_set, is_known=is_known, worst=worst, wrong=wrong)
    )
    log = sampling.logs[arm]
    log.is_right = not wrong and log.is_right is not False
    if wrong:
        sampling.fail(
            arm, Failure(reason=Reason.WRONG_WHEN_TIMED, message=f"a timed block gave a wrong result: {wrong}")
        )
    return not wrong


def _looks_again(sampling: Sampling, judge: Judge, *, is_last: bool) -> bool:
    """Whether new contents are held against old ones in this set: in the first, and in all once a set stood out.

    In others by chance where they are timed. Where operators are counted, in all but the last: by one more set nobody is refused of
    whom none before has told.
    """
    if not sampling.refreshes:
        return True
    if judge.device == "cpu":
        return not is_last or tells_of_memory(sampling.refreshes)
    sets = ([pair for pair in sampling.refreshes if pair.process_set == one] for one in range(sampling.process_set))
    stood_out = any(map(find_memory, sets)) or find_repeats(sampling.snapshot(), VARIANT, least_sets=1)
    return bool(stood_out) or DRAW.random() < DRAWN_SETS


def _compare_refreshes(sampling: Sampling, judge: Judge, driver: ArmProcesses) -> None:
    """A pass over new contents, and one over the same contents written once more: whoever keeps results is faster on the second."""
    planned = COUNTED_PAIRS if judge.device == "cpu" else PAIRS
    count = min(judge.steps, _count_affordable(sampling, judge, passes=WARM_PASSES + 2 * planned))
    if count == 0:
        return
    # after the last round nothing was replaced
    replaced = (_count_rounds(sampling) - 1) // REFRESH_ROUNDS
    for _ in range(WARM_PASSES - replaced):
        judge.fill([driver], dict.fromkeys(range(count)))
        driver.block(count, 0, 0)
    for _ in range(PAIRS):
        if judge.device != "cpu":
            sampling.refreshes.append(_time_passes(sampling, judge, count))
            continue
        sampling.refreshes.append(pair := _count_operators(sampling, judge, driver, count))
        if not tells_of_memory([pair]):
            # the lesser excess of a set counts
            return


def _count_operators(sampling: Sampling, judge: Judge, driver: ArmProcesses, steps: int) -> Refresh:
    """In a fixed order: where work depends on the contents, both passes have the same."""
    judge.fill([driver], dict.fromkeys(range(steps)))
    fresh = driver.count(steps)[0]
    judge.rewrite([driver], range(steps))
    sham = driver.count(steps)[0]
    judge.fill([driver], dict.fromkeys(range(steps)))
    # steps go round the ring: a part of it is passed more often where not all was filled
    many = driver.count(MANY * judge.steps)[0] / (MANY * judge.steps) * steps
    return Refresh(process_set=sampling.process_set, steps=steps, unit="operators", fresh=fresh, sham=sham, many=many)


def _time_passes(sampling: Sampling, judge: Judge, steps: int) -> Refresh:
    """In drawn order; the parent, if it is there, passes over the same new contents first."""
    taken: dict[str, float] = {}
    for kind in DRAW.sample(("fresh", "sham"), 2):
        if kind == "fresh":
            judge.fill([], dict.fromkeys(range(steps)))
            if PARENT in sampling.drivers:
                taken["parent"] = _time_pass(sampling, judge, PARENT, steps)
        taken[kind] = _time_pass(sampling, judge, VARIANT, steps)
    return Refresh(process_set=sampling.process_set, steps=steps, unit="s", at_once=True, **taken)


def _time_pass(sampling: Sampling, judge: Judge, arm: str, steps: int) -> float:
    """Seconds of a pass over the contents that the ring has now, right after a process has taken them in, whatever came before.

    What has just been written is in a cache; and a process that has waited is slower, so it goes over its old contents for a while.
    """
    driver = sampling.drivers[arm]
    wake(sampling, arm, steps)
    judge.rewrite([driver], range(steps))
    return float(driver.block(steps, 0, 0)["wall_s"])


def wake(sampling: Sampling, arm: str, steps: int) -> bool:
    """Step over the old contents for a while, unless the pass that follows is longer; whether it is not."""
    warmed = sampling.logs[arm].warmed
    assert warmed is not None
    is_short = steps * warmed.step_s < WAKING_S
    if is_short:
        sampling.drivers[arm].block(math.ceil(WAKING_S / warmed.step_s), 0, 0)
    return is_short


def _count_rounds(sampling: Sampling) -> int:
    """Of this set."""
    return sum(taken.process_set == sampling.process_set for taken in sampling.rounds)


def _draw_batch(sampling: Sampling, judge: Judge) -> int | None:
    """A batch of the reference, or, if somebody is there to tell what it gives, a new one."""
    if PARENT in sampling.drivers and not judge.is_other_problem and DRAW.random() < 0.5:
        return None
    return DRAW.randrange(judge.steps)


def _count_affordable(sampling: Sampling, judge: Judge, passes: int = 1) -> int:
    """Batches that may be made for each of so many passes."""
    return int(SHARE * sampling.budget.seconds / (passes * max(judge.batch_s, 1e-6)))


def find_judge(sampling: Sampling, arm: str = VARIANT) -> Judge | None:
    """The judge, if it knows what is right for this arm."""
    judge = sampling.judge
    if judge is None or judge.skip or (judge.is_other_problem and arm != VARIANT):
        return None
    return judge


def is_stateful(sampling: Sampling, judge: Judge, arm: str) -> bool:
    """Whether steps of an arm depend on those before."""
    return judge.is_stateful or sampling.logs[arm].stateful
