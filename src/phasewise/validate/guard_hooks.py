"""The guard on hooks that are not timed."""

from __future__ import annotations

from phasewise.bench.hooks import find_hook_work
from phasewise.records.validate import Guard, guard
from phasewise.validate.trial import Trial


def hooks_only_copy(trial: Trial) -> Guard:
    """`outputs`, `state`, `load` and the `place` of resident inputs do nothing that is worth timing."""
    return guard("hooks-only-copy", find_hook_work(trial.case, trial.batch(0)))
