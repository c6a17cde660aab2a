"""Artifacts that are on record and not on disk: a clone has the records of a run, not what was prepared for it."""

from __future__ import annotations

import fcntl

from phasewise.model.layout import Layout
from phasewise.prepare.apart import prepare_in_process
from phasewise.records.errors import UserError
from phasewise.records.plan import PreparePlan
from phasewise.records.prepare import Prepared


def restore_artifacts(plan: PreparePlan, prepared: Prepared, layout: Layout) -> None:
    """Prepare the workload again if an artifact of `prepared` is missing. Jobs side by side wait for the first.

    Raises:
        UserError: what is made here is not what is on record.
    """
    if not _missing(prepared, layout):
        return
    folder = layout.data(plan.workload)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{plan.workload}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _missing(prepared, layout):
            return
        made = {artifact.path: artifact.sha256 for artifact in prepare_in_process(plan, None, layout).artifacts}
    for artifact in prepared.artifacts:
        if made.get(artifact.path) != artifact.sha256:
            record = layout.relative(layout.run(plan.workload, plan.run) / "prepare.json")
            raise UserError(
                f"{artifact.path}: what is prepared here is not what {record} has on record, and the run was made with; "
                "delete that record to make the run anew"
            )


def _missing(prepared: Prepared, layout: Layout) -> bool:
    """Whether an artifact is not there, or not whole yet."""
    paths = ((layout.root / artifact.path, artifact.bytes) for artifact in prepared.artifacts)
    return not all(path.is_file() and path.stat().st_size == size for path, size in paths)
