"""Curves of checks reach TensorBoard, and only those over steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.records.validate import CaseValidation, Chart, CheckResult, Outcome, Series, Validation
from phasewise.validate.events import write_curves


def make_validation() -> Validation:
    line = Series(label="loss", x=(0.0, 1.0, 2.0), y=(3.0, None, 1.0))
    charts = {
        "training": Chart(title="Training", x_title="epoch", y_title="loss", series=(line,)),
        "spectrum": Chart(title="A spectrum", x_title="channel", y_title="A", series=(line,)),
        "plain": None,
    }
    checks = tuple(CheckResult(check=name, outcome=Outcome.PASS, chart=chart) for name, chart in charts.items())
    case = CaseValidation(case="train", outcome=Outcome.PASS, checks=checks)
    return Validation(
        workload="w", run="tiny-cpu", variant="01-a", plan="0", machine="m", commit="c", tier="moderate", cases=(case,)
    )


def test_a_training_curve_is_written_where_the_captures_go(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for _ in range(2):
        assert write_curves(make_validation(), tmp_path) == (tmp_path / "train/curves/training",)
    (file,) = (tmp_path / "train/curves/training").iterdir()
    # not the name of the machine
    assert file.name == "events.out.tfevents.curve"
    read = accumulator.EventAccumulator(str(file)).Reload()
    assert [(event.step, event.value) for event in read.Scalars("loss")] == [(0, 3.0), (2, 1.0)]
    assert not (tmp_path / "train/curves/spectrum").exists()


def test_without_tensorboard_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert write_curves(make_validation(), tmp_path) == ()
    assert not list(tmp_path.iterdir())
