"""What to do next: the findings on the ends of all stacks, one cure once, the one that holds the most time first."""

from __future__ import annotations

from collections.abc import Mapping

from phasewise.analyse.compare import Key
from phasewise.records.analyse import Finding, NextStep
from phasewise.records.finding import FindingId
from phasewise.records.verdict import Status, Verdict
from phasewise.run import Run

# a phase that has one of these is advised no more
TRIED_IN_VAIN = frozenset({Status.SAME, Status.SLOWER, Status.INVALID, Status.FAILED})


def choose_next_steps(
    run: Run, verdicts: Mapping[Key, Verdict], stack: Mapping[str, str | None]
) -> tuple[NextStep, ...]:
    """One step for each finding and advice; near the roof of a case the only advice for it is to stop."""
    found: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    for case, variant in stack.items():
        analysis = run[variant].analysed(case) if variant is not None else None
        there = [one for one in analysis.findings if one.outcome == "found"] if analysis is not None else []
        roof = [one for one in there if one.finding == FindingId.NEAR_THE_ROOF]
        for one in roof or there:
            if _is_possible(run, case, one):
                found.setdefault((one.finding, one.advice), []).append((case, one))
    steps = [_merge(run, verdicts, held) for held in found.values()]
    return tuple(sorted(steps, key=lambda step: (-step.seconds, -(step.gain.estimate if step.gain else 1.0))))


def _is_possible(run: Run, case: str, finding: Finding) -> bool:
    """Whether the work lets the advice be followed: launches that wait for one another can't be done at once."""
    work = run.work(case)
    return finding.finding != FindingId.SERIAL_LOOP or work is None or not work.barriers


def _merge(run: Run, verdicts: Mapping[Key, Verdict], held: list[tuple[str, Finding]]) -> NextStep:
    ranked = sorted(held, key=lambda pair: -pair[1].seconds)
    case, first = ranked[0]
    tried = {phase.phase for phase in run.plan.phases if verdicts[(case, phase.variant)].status in TRIED_IN_VAIN}
    return NextStep(
        cases=tuple(case for case, _ in ranked),
        finding=first.finding,
        advice=first.advice,
        phase=None if first.suggests in tried else first.suggests,
        seconds=first.seconds,
        gain=first.gain,
    )
