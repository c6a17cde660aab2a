"""Who takes part in the headline of a case: what its report begins with is timed in the same rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from phasewise.model.stack import BASELINE
from phasewise.records.plan import Kind, PlannedTarget, RunPlan, VariantPlan

# beside the baseline and ours
MOST_PEERS = 4
# sets of processes, where every round is clear and where one is not
FEW, MANY = 3, 5
# metrics that a ratio to the baseline answers
RATIOS = ("speedup", "time_s", "items_per_s")


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Variants by their part in it."""

    # the stack of the case, its end first and the baseline last: the first that holds is the end
    stack: tuple[str, ...]
    # what targets hold against the baseline, apart from the end
    compared: tuple[str, ...] = ()
    # of the same output, beside the end
    peers: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """Those whose plans and gates decide what is timed."""
        return tuple(dict.fromkeys((self.stack[0], self.stack[-1], *self.compared, *self.peers)))


def find_own(cast: Cast, plans: Mapping[str, VariantPlan], case: str) -> str:
    """The variant whose own rounds beside its parent are those of the headline, since nobody else takes part; "" where there is none.

    `plans` are those of the cast and of its whole stack. Gates are not asked: this is known before anything is timed.
    """
    *ours, first = [name for name in cast.stack if _is_timed(plans[name])] or [""]
    others = [name for name in (*cast.compared, *cast.peers) if _is_timed(plans[name]) and name not in ours]
    is_alone = len(ours) == 1 and first == cast.stack[-1] and not others
    return ours[0] if is_alone and not plans[first].case(case).baseline_at else ""


def _is_timed(plan: VariantPlan) -> bool:
    return not (plan.skip or plan.untimed)


def cast_headline(run_plan: RunPlan, plans: Mapping[str, VariantPlan], case: str) -> Cast:
    """The headline of `case`; `plans` are those of the run."""
    top = run_plan.stack[case]
    stack = (top, *plans[top].case(case).ancestors)
    compared = dict.fromkeys(
        name for target in run_plan.targets for name in _find_compared(run_plan, target, case, stack)
    )
    peers = [
        row.variant
        for row in run_plan.variants
        if row.kind is Kind.PEER and not row.different and case in row.cases and not row.skip
        and plans[row.variant].case(case).parent == top
    ]  # fmt: skip
    return Cast(
        stack=stack,
        compared=tuple(name for name in compared if name not in (top, BASELINE)),
        peers=tuple(peers[:MOST_PEERS]),
    )


def is_in_headlines(run_plan: RunPlan, plans: Mapping[str, VariantPlan], variant: str) -> bool:
    """Whether this peer takes part in the headlines of all its cases, so that it needs no rounds of its own."""
    return all(variant in cast_headline(run_plan, plans, case.case).peers for case in plans[variant].cases)


def _find_compared(run_plan: RunPlan, target: PlannedTarget, case: str, stack: tuple[str, ...]) -> Iterator[str]:
    """The variant that a target holds against the baseline: a phase, or the end of a part."""
    if target.against != "baseline" or target.metric not in RATIOS or target.case != case:
        return
    rows = {row.variant: row for row in run_plan.variants}
    for phase in reversed(run_plan.phases):
        row = rows.get(phase.variant)
        if row is None or case not in phase.cases or row.skip or row.untimed:
            continue
        if phase.phase == target.phase or (
            target.phase is None and phase.part == target.part and phase.variant in stack
        ):
            if target.phase is not None or target.part is not None:
                yield phase.variant
            return
