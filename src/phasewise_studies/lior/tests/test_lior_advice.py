"""The document's troubleshooting, as the command says it: captured or not, slower or faster, right or wrong."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch

from phasewise.records.errors import UserError
from phasewise_studies.lior.data import BATCH, draw
from phasewise_studies.lior.product import advice
from phasewise_studies.lior.product.settings import TrainConfig, open_configured
from phasewise_studies.lior.tests.lior_runs import make_shape
from phasewise_studies.lior.window import read_sizes

CPU = torch.device("cpu")
SIZES = read_sizes(make_shape(feedback=True))


@pytest.fixture
def opened(caplog):
    """A trainer, its start and a placed batch, with the log at INFO."""
    caplog.set_level(logging.INFO, logger="phasewise.lior")
    start = draw(SIZES, 0)
    batch = {name: start[name].float() for name in BATCH}
    return open_configured(TrainConfig(), start, SIZES, CPU, batch), start, batch


def test_a_capture_is_told_with_its_warm_up(opened, caplog) -> None:
    trainer, _, _ = opened
    assert advice.tell_capture(trainer, SIZES, 10, CPU)
    assert "[CUDAGRAPH] Captured after 10 warm-up windows, for batches of 3 tokens" in caplog.text


def test_a_failed_capture_on_a_gpu_comes_with_a_cure_and_without_one_on_a_cpu(opened, caplog) -> None:
    trainer = replace(opened[0], fallbacks=("cuda-graph: the capture failed: CUDA error",))
    assert not advice.tell_capture(trainer, SIZES, 3, CPU)
    assert not caplog.records
    assert not advice.tell_capture(trainer, SIZES, 3, torch.device("cuda"))
    assert "Try --warmup_steps 20 to 50" in caplog.text


def test_both_times_are_taken_and_no_state_is_changed(opened) -> None:
    trainer, start, batch = opened
    other = open_configured(TrainConfig(), start, SIZES, CPU, batch)
    before = {name: tensor.clone() for name, tensor in trainer.window.state().items()}
    # three rounds of three windows each: 30, 60 and 90 ms with the graph, 3 without
    ticks = iter([0, 0.03, 1, 1.06, 2, 2.09, 3, 3.003, 4, 4.003, 5, 5.003])
    with_graph, without = advice.compare_speed(trainer, other, batch, now=lambda: next(ticks))
    assert (with_graph, without) == (pytest.approx(10.0), pytest.approx(1.0))
    assert all(torch.equal(before[name], tensor) for name, tensor in trainer.window.state().items())


def test_a_slower_graph_is_a_warning_with_a_cure_and_a_faster_one_is_none(caplog) -> None:
    caplog.set_level(logging.INFO, logger="phasewise.lior")
    advice.tell_speed(1.0, 30.0, 8)
    assert "1.000 ms a window, 30.000 ms without a graph" in caplog.text
    assert "Slower" not in caplog.text
    advice.tell_speed(30.0, 1.0, 8)
    assert "Slower with the graph: leave --use_cudagraphs out" in caplog.text


@pytest.mark.parametrize("symmetric", [False, True])
def test_right_numbers_are_verified_against_float64(symmetric: bool, opened, caplog) -> None:
    _, start, batch = opened
    sizes = replace(SIZES, symmetric=symmetric)
    trainer = open_configured(TrainConfig(symmetric_nudging=symmetric), start, sizes, CPU, batch)
    before = {name: tensor.clone() for name, tensor in trainer.window.state().items()}
    advice.verify(trainer, start, [batch, batch], sizes)
    assert "in 2 windows against plain loops in float64" in caplog.text
    assert all(torch.equal(before[name], tensor) for name, tensor in trainer.window.state().items())


@pytest.mark.parametrize("wrong", [1.001, float("nan")])
def test_wrong_numbers_end_the_command(wrong: float, opened) -> None:
    trainer, start, batch = opened

    def run(given):
        report = trainer.run(given)
        return {**report, "lior": report["lior"] * wrong}

    with pytest.raises(UserError, match=r"--verify: loss off by .* at most 1e-04 is allowed; train without"):
        advice.verify(replace(trainer, run=run), start, [batch], SIZES)
