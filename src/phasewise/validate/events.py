"""Curves of checks as TensorBoard events, beside the profiler's captures: `tensorboard --logdir profiles/captures` shows both."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from phasewise.records.validate import CheckResult, Validation

# TensorBoard looks for `tfevents`; the writer's own name holds the host's
NAME = "events.out.tfevents.curve"
# what a curve that training drew runs over; other charts are spectra or times, which TensorBoard's scalars are not
OVER = ("epoch", "step")


def write_curves(validation: Validation, folder: Path) -> tuple[Path, ...]:
    """Write each check's curve over steps to `folder`/CASE/curves/CHECK and return those; nothing where tensorboard is not installed.

    Values that are not finite were recorded as None and are left out.
    """
    drawn = [
        (folder / case.case / "curves" / check.check, check)
        for case in validation.cases
        for check in case.checks
        if check.chart is not None and check.chart.x_title in OVER
    ]
    if not drawn or importlib.util.find_spec("tensorboard") is None:
        return ()
    for path, check in drawn:
        _write(path, check)
    return tuple(path for path, _ in drawn)


def _write(path: Path, check: CheckResult) -> None:
    # with torch it takes seconds, and few variants have a curve
    from torch.utils.tensorboard import SummaryWriter

    assert check.chart is not None, "only checks with a chart are drawn"
    with SummaryWriter(str(path)) as writer:
        for line in check.chart.series:
            for x, y in zip(line.x, line.y, strict=True):
                if y is not None:
                    writer.add_scalar(line.label, y, int(x))
    (written,) = set(path.glob("events.out.tfevents.*")) - {path / NAME}
    # in the place of the curves of a run before
    written.replace(path / NAME)
