"""Runs that the index and the numbers leave out."""

from __future__ import annotations

from collections.abc import Iterable

TRIAL = "tiny-"


def leave_out_trials(runs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """In order of their names, without those at tiny size of a workload that has others.

    They show that it works, on any machine: git keeps none of them, and what it keeps must not change with them.
    """
    found = sorted(runs)
    larger = {workload for workload, run in found if not run.startswith(TRIAL)}
    return tuple((workload, run) for workload, run in found if workload not in larger or not run.startswith(TRIAL))
