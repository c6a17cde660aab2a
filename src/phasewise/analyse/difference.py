"""What changed between two runs of a workload: verdicts, speed-ups, and the kernels of the end of each stack."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.records.analyse import CaseResult, Row
from phasewise.records.base import Interval
from phasewise.records.difference import CaseDifference, Difference, KernelChange, VerdictChange
from phasewise.records.plan import Kind
from phasewise.records.profile import CaseProfile
from phasewise.records.verdict import Reason, Status
from phasewise.run import Run

# a kernel has grown or shrunk if its time has by so much, and by so much of the step
KERNEL_RATIO, KERNEL_SHARE = 1.1, 0.01
# from worst to best for whoever has to decide; others say nothing of the phase
RANK = {
    Status.FAILED: 0,
    Status.INVALID: 1,
    Status.SLOWER: 2,
    Status.INCONCLUSIVE: 3,
    Status.SAME: 4,
    Status.FASTER: 5,
    Status.ENABLED: 5,
}


def compare_runs(old: Run, new: Run) -> Difference:
    """What is different in `new`; both have been analysed."""
    before, after = ({case.case: case for case in run.results} for run in (old, new))
    cases = tuple(
        CaseDifference(
            case=name, verdicts=tuple(_compare_verdicts(before[name], after[name])),
            kernels=tuple(_compare_kernels(_last_profile(old, before[name]), _last_profile(new, after[name]))),
        )
        for name in before if name in after
    )  # fmt: skip
    return Difference(
        workload=new.workload, old=old.name, new=new.name, cases=cases,
        went=tuple(name for name in before if name not in after), came=tuple(name for name in after if name not in before),
    )  # fmt: skip


def _compare_verdicts(old: CaseResult, new: CaseResult) -> Iterable[VerdictChange]:
    """Phases by name, since numbers change when one is put in between."""
    before, after = _rows(old), _rows(new)
    for phase in dict.fromkeys([*before, *after]):
        change = _compare_rows(phase, before.get(phase), after.get(phase))
        if change is not None:
            yield change


def _rows(case: CaseResult) -> dict[str, Row]:
    return {
        row.phase: row
        for row in case.rows
        if row.phase and row.kind is Kind.PHASE and row.verdict.reason is not Reason.CASE_NOT_CHOSEN
    }


def _compare_rows(phase: str, old: Row | None, new: Row | None) -> VerdictChange | None:
    """None where neither the status has changed nor the intervals are apart."""
    was, now = (None if row is None else row.verdict for row in (old, new))
    ratios = [None if verdict is None else verdict.over_parent for verdict in (was, now)]
    apart = _are_apart(*ratios)
    if was is not None and now is not None and was.status is now.status and not apart:
        return None
    ranks = [None if verdict is None else RANK.get(verdict.status) for verdict in (was, now)]
    fell = ranks[0] is not None and ranks[1] is not None and ranks[1] < ranks[0]
    lost = apart and ratios[0] is not None and ratios[1] is not None and ratios[1].high < ratios[0].low
    return VerdictChange(
        phase=phase, old=None if was is None else was.status, new=None if now is None else now.status,
        old_ratio=ratios[0], new_ratio=ratios[1], is_worse=fell or lost,
    )  # fmt: skip


def _are_apart(old: Interval | None, new: Interval | None) -> bool:
    return old is not None and new is not None and (new.low > old.high or new.high < old.low)


def _last_profile(run: Run, case: CaseResult) -> CaseProfile | None:
    """Of the end of the stack."""
    return None if case.stack is None else run[case.stack].profiled(case.case)


def _compare_kernels(old: CaseProfile | None, new: CaseProfile | None) -> Iterable[KernelChange]:
    """Those that matter, the largest change first; none where one of both runs has no profile."""
    if old is None or new is None or old.breakdown is None or new.breakdown is None:
        return
    least = KERNEL_SHARE * max(old.breakdown.wall_s, new.breakdown.wall_s)
    before, after = ({kernel.name: kernel.seconds for kernel in profile.kernels} for profile in (old, new))
    changes = []
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name, 0.0), after.get(name, 0.0)
        grown = max(was, now) >= KERNEL_RATIO * min(was, now)
        if grown and abs(now - was) >= least:
            changes.append(KernelChange(name=name, old_s=was, new_s=now))
    yield from sorted(changes, key=lambda change: -abs(change.new_s - change.old_s))
