"""Rounds and process sets of one comparison, until the ratio is known well enough or the budget ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from phasewise.judge.case import Judge
from phasewise.measure.drops import mark_drops
from phasewise.measure.opening import is_slow, open_set, prepare_arms
from phasewise.measure.processes import Processes
from phasewise.measure.rounds import add_round, ask_all, end_last, end_set, finish_arm, run_block, run_round
from phasewise.measure.sampling import DoNotFit, Sampling, Tools, begin_sampling
from phasewise.model.ratios import ALONE, SLOW, paired_log_ratios, stop_rules
from phasewise.model.refusals import find_refusal
from phasewise.records.measure import CaseMeasurement, Sample
from phasewise.records.plan import Budget
from phasewise.stats import (
    Continue,
    RatioEstimate,
    Standing,
    Stop,
    StopRules,
    count_sure_sets,
    decide_next,
    estimate_ratio,
    nearest_round,
)
from phasewise.workers.failure import is_kill

# the fewest rounds that have a spread
LEAST_ROUNDS = 2
# rounds tried for each round wanted: where most are dropped, more of them will not help
TRIES = 2

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """When to stop, and how that reads on record where the amount was fixed beforehand."""

    stop: StopRules
    fixed: str = ""


def sample_case(
    case: str,
    processes: Processes,
    pairs: Sequence[Pair],
    budget: Budget,
    tools: Tools,
    *,
    stop: StopRules | None = None,
    ahead: bool = False,
    judge: Judge | None = None,
    ends_if_killed: bool = False,
) -> CaseMeasurement:
    """Measure the arms of `processes`, and end these, in the same rounds until the ratio of each of `pairs` (slower, faster) is precise
    or clear.

    `stop`: when that is; None = as the budget says.

    An arm that fails is out, with its failure on record; the others go on. Without a pair left the rest are timed alone.
    With `ahead`, the processes of all sets fit on the device at once. `judge`, which is open, judges what is timed. `ends_if_killed`: one that was killed ends it for all.
    """
    sampling = begin_sampling(case, processes, budget, tools, ahead=ahead, judge=judge, ends_if_killed=ends_if_killed)
    began = tools.now()
    try:
        stopped = _sample(sampling, pairs, stop or stop_rules(budget))
    finally:
        sampling.processes.leave(sampling.logs)
    sampling.rounds = list(mark_drops(sampling.rounds))
    seconds = tools.now() - began
    estimates = [estimate_ratio(sets) for sets in _pair_rounds(sampling, pairs)]
    tools.progress.done(_describe(sampling, estimates, f"stopped: {stopped}, {seconds:.0f} s"))
    return msgspec.structs.replace(sampling.snapshot(stopped), seconds=seconds)


def was_killed(found: CaseMeasurement) -> bool:
    """Whether a process of it was killed from outside, so that it tells nothing of the program."""
    # the judge's is why the whole was left out
    return any(map(is_kill, (found.skipped, *(arm.failure for arm in found.arms))))


def _sample(sampling: Sampling, pairs: Sequence[Pair], stop: StopRules) -> str:
    """Sets and rounds; returns why they ended."""
    wanted, fresh = 0, True
    while True:
        if fresh:
            wanted = _begin_set(sampling, pairs, stop, wanted)
        if _is_over(sampling, pairs):
            ask_all(sampling)
            end_last(sampling)
            return "failed"
        set_began, before = sampling.tools.now(), len(sampling.rounds)
        if sampling.arms_fit:
            fresh = _run_interleaved(sampling, wanted)
            if fresh:
                # they do not fit together; the same again, one after the other
                continue
        else:
            _run_one_by_one(sampling, wanted)
        taken = len(sampling.rounds) - before
        spent = sampling.tools.now() - set_began
        if _is_over(sampling, pairs):
            ask_all(sampling)
            end_last(sampling)
            return "failed"
        rules = choose_rules(sampling, pairs, stop)
        if not sampling.arms_fit:
            sampling.seconds_a_set = spent
        step = _decide(sampling, pairs, rules, spent / taken if taken and sampling.arms_fit else 0.0)
        if isinstance(step, Continue) and step.where == "this-set" and sampling.arms_fit:
            wanted, fresh = step.rounds, False
            continue
        ask_all(sampling, is_last=isinstance(step, Stop))
        if isinstance(step, Stop) and not (step.reason == "clear" and _is_suspicious(sampling, rules.stop)):
            end_last(sampling)
            return rules.fixed or step.reason
        end_set(sampling)
        wanted, fresh = rules.stop.least_rounds if isinstance(step, Stop) else step.rounds, True


def _begin_set(sampling: Sampling, pairs: Sequence[Pair], stop: StopRules, wanted: int) -> int:
    """Open a set, if its arms live together; the rounds to run in it."""
    if sampling.arms_fit:
        try:
            open_set(sampling, _count_sure(sampling, pairs, stop))
        except DoNotFit:
            sampling.arms_fit = False
            sampling.process_set -= 1
    if not sampling.arms_fit:
        sampling.process_set += 1
    first = wanted == 0
    if first:
        sampling.began = sampling.tools.now() - sampling.warming_s
    return choose_rules(sampling, pairs, stop).stop.least_rounds if first else wanted


def _is_suspicious(sampling: Sampling, stop: StopRules) -> bool:
    """Whether the only set shows what refuses a program if a second one shows it too, and there may be one."""
    return (
        sampling.process_set == 0
        and stop.most_sets > 1
        and any(find_refusal(sampling.snapshot(), arm, least_sets=1) is not None for arm in sampling.taking_part)
    )


def _count_sure(sampling: Sampling, pairs: Sequence[Pair], stop: StopRules) -> int:
    """Sets that are sure to be measured; of those that are not, nothing is started."""
    begun = sampling.process_set + 1
    nearest = min(map(nearest_round, _pair_rounds(sampling, pairs)), default=0.0) if begun else math.inf
    # those that build beside the first cost little, and nothing tells early of one that is alone
    is_open = bool(_open_pairs(sampling, pairs)) and not sampling.ahead
    return count_sure_sets(stop, begun=begun, nearest=nearest) if is_open else stop.least_sets


def _run_interleaved(sampling: Sampling, wanted: int) -> bool:
    """Interleaved rounds; True if the arms turned out not to fit together."""
    try:
        for _ in range(wanted):
            if not sampling.drivers or (sampling.ends_if_killed and sampling.was_killed):
                return False
            run_round(sampling)
            sampling.tools.progress.update(_describe(sampling, [], ""))
    except DoNotFit:
        sampling.arms_fit = False
        return True
    return False


def _run_one_by_one(sampling: Sampling, wanted: int) -> None:
    """One arm after the other in a process of its own; the blocks are paired by their number."""
    arms = sampling.taking_part
    sampling.rng.shuffle(arms)
    blocks: dict[str, list[Sample]] = {}
    for arm in arms:
        log = sampling.logs[arm]
        sampling.processes.start(arm, sampling.process_set, 1)
        prepare_arms(sampling, [arm], with_others=False)
        if arm not in sampling.drivers:
            continue
        assert log.warmed is not None
        slow = log.warmed.step_s > sampling.budget.slow_step_s
        for _ in range(1 if sampling.is_rare(arm) else LEAST_ROUNDS if slow else wanted):
            sample = run_block(sampling, arm)
            if sample is None:
                break
            blocks.setdefault(arm, []).append(sample)
        if arm in sampling.drivers:
            finish_arm(sampling, arm)
            sampling.processes.close()
    for number in range(max((len(taken) for taken in blocks.values()), default=0)):
        add_round(sampling, [blocks[arm][number] for arm in arms if number < len(blocks.get(arm, ()))])


def choose_rules(sampling: Sampling, pairs: Sequence[Pair], ordinary: StopRules) -> Rules:
    """The ordinary rules; fixed amounts where an arm is slow, or where nothing is left to compare.

    Slow arms too are compared in fresh processes, as far as the budget's seconds go: a loop of launches strays most from one
    process to the next.
    """
    budget = sampling.budget
    is_compared = bool(_open_pairs(sampling, pairs))
    if is_slow(sampling):
        a_round = sum(arm.step_s * arm.block_steps for arm in sampling.warmed)
        rounds = max(LEAST_ROUNDS, min(budget.min_rounds, int(sampling.seconds_left / a_round)))
        seconds = budget.seconds + sampling.opening_s - sampling.warming_s
        sets = int(seconds / (sampling.opening_s + rounds * a_round)) if is_compared else 1
        fixed = _fixed(rounds, max(1, min(ordinary.least_sets, sets)))
        return Rules(stop=replace(fixed, clear=ordinary.clear), fixed=SLOW)
    if not is_compared:
        return Rules(stop=_fixed(ordinary.least_rounds, ordinary.least_sets), fixed=ALONE)
    if not sampling.arms_fit:
        # a process that has made room for another can't take more rounds
        return Rules(stop=replace(ordinary, most_rounds=ordinary.least_rounds))
    return Rules(stop=ordinary)


def _decide(sampling: Sampling, pairs: Sequence[Pair], rules: Rules, seconds_a_round: float) -> Continue | Stop:
    sampling.rounds = list(mark_drops(sampling.rounds))
    here = [taken for taken in sampling.rounds if taken.process_set == sampling.process_set]
    kept = sum(not taken.dropped for taken in here)
    # too many were dropped, or one arm could not give more: what there is has to do
    if len(here) >= TRIES * rules.stop.least_rounds or not sampling.arms_fit or rules.fixed == SLOW:
        kept = max(kept, rules.stop.least_rounds)
    ratios = _pair_rounds(sampling, pairs)
    estimates = [estimate_ratio(sets, rules=rules.stop) for sets in ratios]
    sampling.tools.progress.update(_describe(sampling, estimates, f"{sampling.seconds_left:.0f} s left"))
    return decide_next(
        estimates,
        rules=rules.stop,
        progress=Standing(
            sets=sampling.process_set + 1,
            rounds=kept,
            seconds_left=sampling.seconds_left,
            seconds_a_set=sampling.seconds_a_set,
            seconds_a_round=seconds_a_round,
            nearest=min(map(nearest_round, ratios), default=0.0),
        ),
    )


def _pair_rounds(sampling: Sampling, pairs: Sequence[Pair]) -> list[list[list[float]]]:
    """The paired log-ratios, by process set, of each pair of which both arms still take part."""
    case = sampling.snapshot()
    ratios = [paired_log_ratios(case, *pair) for pair in _open_pairs(sampling, pairs)]
    return [sets for sets in ratios if sets]


def _open_pairs(sampling: Sampling, pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if all(sampling.logs[arm].takes_part for arm in pair)]


def _is_over(sampling: Sampling, pairs: Sequence[Pair]) -> bool:
    """Whether all that was to be compared has failed; without pairs, whether any arm is left.

    A comparison that is made again if a process was killed ends with the first of them.
    """
    if sampling.ends_if_killed and sampling.was_killed:
        return True
    subjects = {faster for _, faster in pairs} or set(sampling.logs)
    return not any(sampling.logs[arm].takes_part for arm in subjects)


def _fixed(rounds: int, sets: int) -> StopRules:
    return StopRules(least_rounds=rounds, most_rounds=rounds, least_sets=sets, most_sets=sets)


def _describe(sampling: Sampling, estimates: Sequence[RatioEstimate], left: str) -> str:
    ratios = ", ".join(f"{ratio.estimate:.3f}x [{ratio.low:.3f}, {ratio.high:.3f}]" for ratio in estimates)
    where = f"{sampling.case}: set {sampling.process_set + 1}, {len(sampling.rounds)} rounds"
    return ", ".join(part for part in (where, ratios, left) if part)
