"""The feedback trainer stays alive and forgets a disturbance, so 100 windows can be held against float64 - and errors show."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from phasewise import CheckContext, Program, Shape
from phasewise_studies.lior import checks, eager, program, retrieval, window
from phasewise_studies.lior.data import draw_batch
from phasewise_studies.lior.switches import Switches

# the shape at which `loss-curves` runs on a GPU
CURVES = Shape(batch=8, steps=32, bank=256, state=64, grid=8, inner=4, filled=200, feedback=True)
QUICK = {"progress_every": 0, "rotor_update": "vectorised", "retrieval": "product", "cached_rotation": True}
WINDOWS = 40


def run(made: Program, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    return dict(made.outputs(made.step(made.place(batch))))


def follow_float64(disturbance: float = 0.0) -> Tensor:
    """LIoR of both phases, metric and angles of each window, in float64 from a start off by `disturbance`."""
    generator = torch.Generator().manual_seed(1)
    inputs = program.make_inputs("feedback-32", CURVES, 0)
    for name in ("field", "metric", "theta", "bank_coords", "bank_states"):
        noise = torch.randn(inputs[name].shape, dtype=torch.float64, generator=generator)
        inputs[name] = inputs[name] * (1 + disturbance * noise)
    torch.set_default_dtype(torch.float64)
    try:
        made = program.build(Switches(**QUICK), inputs, "feedback-32", CURVES, torch.device("cpu"))
        lines = []
        for index in range(WINDOWS):
            lior = run(made, draw_batch(window.read_sizes(CURVES), index))["lior"]
            state = made.state()
            lines.append(torch.cat([lior, state["metric"].clone(), state["theta"].clone()]))
        return torch.stack(lines)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_feedback_trainer_stays_alive_and_forgets_a_disturbance() -> None:
    found = follow_float64()
    contrast, metric = found[:, 1] - found[:, 0], found[:, 2:10]
    # it pulls both ways, and no coordinate is given up
    assert 0.2 < float((contrast < 0).double().mean()) < 0.8
    assert float(metric.min()) > 10 * window.METRIC_LEAST
    assert float(metric.max()) < window.METRIC_MOST / 10
    # 1e-7 is what float32 rounds away
    assert float((follow_float64(1e-7) - found).abs().max()) < 1e-6


def test_a_stronger_source_would_lay_the_metric_at_its_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "SOURCE_STEP", 10 * eager.SOURCE_STEP)
    found = follow_float64()
    assert float((found[:, 1] < found[:, 0]).double().mean()) > 0.9
    assert bool((found[-1, 2:10] <= window.METRIC_LEAST).any())


def check_curves(switches: Switches) -> dict[str, float]:
    context = CheckContext(
        build=None, reference=None, run=run, inputs=None, switches=switches, case="feedback-32", shape=CURVES,
        device=torch.device("cpu"), rtol=1e-4, atol=2e-5,
    )  # fmt: skip
    found = checks.loss_curves(context)
    worst = {name: quantity.value for name, quantity in found.numbers.items()}
    assert found.passed == all(value <= 1e-4 for value in worst.values())
    return worst


def test_float32_keeps_the_curves() -> None:
    assert max(check_curves(Switches(**QUICK)).values()) < 3e-5


@pytest.mark.parametrize(
    ("module", "name", "factor"),
    [
        (window, "ROTOR_RATE", 1.01),
        (window, "ETA_OVER_BETA_NUDGE", 1.001),
        (eager, "NUDGE_SCALE", 1.001),
        (eager, "SOURCE_STEP", 1.01),
        (retrieval, "BETA", 1.1),
    ],
)
def test_a_small_error_shows_in_the_curves(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, factor: float
) -> None:
    # the reference has taken its constants at import
    monkeypatch.setattr(module, name, factor * getattr(module, name))
    assert max(check_curves(Switches(**QUICK)).values()) > 1e-4


def test_minus_pi_and_pi_are_one_angle_and_a_nan_is_no_agreement() -> None:
    exact = torch.zeros(3, 20, dtype=torch.float64)
    ours = exact.clone()
    exact[1, -1], ours[1, -1] = math.pi - 1e-6, -math.pi + 1e-6
    assert checks.measure_drift(ours, exact, 2)["angles"] < 2e-6
    ours[2, -2] = 1e-3
    assert checks.measure_drift(ours, exact, 2)["angles"] == pytest.approx(1e-3)
    ours[0, 0] = math.nan
    assert math.isnan(checks.measure_drift(ours, exact, 2)["loss"])
