"""Curves of checks as TensorBoard events, beside the profiler's captures: `tensorboard --logdir profiles/captures` shows both."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

from phasewise.records.validate import CheckResult, Validation

# TensorBoard looks for `tfevents`
NAME = "events.out.tfevents.curve"
# what a curve that training drew runs over; other charts are spectra or times, which TensorBoard's scalars are not
OVER = ("epoch", "step")
# of the format of its files, as TensorBoard looks for it in the first event
VERSION = "brain.Event:2"


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
    # few variants have a curve; torch's own writer would take a second to bring torch along
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    assert check.chart is not None, "only checks with a chart are drawn"
    now = time.time()
    events = [Event(wall_time=now, file_version=VERSION)]
    for line in check.chart.series:
        for x, y in zip(line.x, line.y, strict=True):
            if y is not None:
                value = Summary.Value(tag=line.label, simple_value=y)
                events.append(Event(wall_time=now, step=int(x), summary=Summary(value=[value])))
    path.mkdir(parents=True, exist_ok=True)
    # in the place of the curves of a run before
    with (path / NAME).open("wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())
