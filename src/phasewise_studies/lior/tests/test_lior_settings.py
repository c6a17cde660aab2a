"""The document's presets, constraints and troubleshooting, each met on purpose."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch

from phasewise.judge.compare import judge
from phasewise.records.errors import UserError
from phasewise.records.plan import Allowance
from phasewise_studies.lior import program
from phasewise_studies.lior.data import BATCH
from phasewise_studies.lior.phases import workload
from phasewise_studies.lior.product.settings import (
    DEVELOPMENT,
    PRODUCTION,
    PROFILING,
    check_config,
    open_configured,
    train,
)
from phasewise_studies.lior.switches import CAPTURED, Switches
from phasewise_studies.lior.tests.lior_runs import build, make_shape, run_reference, run_windows, worst_error
from phasewise_studies.lior.window import read_sizes

CPU = torch.device("cpu")
SHAPE = make_shape(feedback=True, steps=8)
SIZES = read_sizes(SHAPE)


def make_batches(count: int) -> list[dict[str, torch.Tensor]]:
    drawn = [program.make_inputs("any", SHAPE, seed) for seed in range(count)]
    return [{name: inputs[name].float() for name in BATCH} for inputs in drawn]


def open_with(config):
    batches = make_batches(2)
    return open_configured(config, program.make_inputs("any", SHAPE, 0), SIZES, CPU, batches[0]), batches


def test_development_prints_a_line_every_eight_steps(caplog) -> None:
    trainer, batches = open_with(DEVELOPMENT)
    with caplog.at_level(logging.INFO, logger="phasewise.lior"):
        reports = list(train(DEVELOPMENT, trainer, batches))
    lines = [record.getMessage() for record in caplog.records]
    # one line for each phase of each window
    assert len([line for line in lines if "step 7" in line]) == 4
    assert f"LIoR {float(reports[0].report['lior'][0]):.5f}" in lines[0]


def test_profiling_logs_the_milliseconds_of_each_window_after_waiting(caplog) -> None:
    trainer, batches = open_with(PROFILING)
    ticks = iter([1.0, 1.25, 3.0, 3.002])
    with caplog.at_level(logging.INFO, logger="phasewise.lior"):
        reports = list(train(PROFILING, trainer, batches, now=lambda: next(ticks)))
    assert [report.milliseconds for report in reports] == [pytest.approx(250.0), pytest.approx(2.0)]
    assert "[TIMING] window 0: 250.000 ms" in caplog.text


def test_production_without_a_gpu_says_that_the_capture_failed_and_gives_the_same_numbers(caplog) -> None:
    config = replace(PRODUCTION, capture_batch_size=SIZES.batch, warmup_steps=1)
    with caplog.at_level(logging.WARNING, logger="phasewise.lior"):
        trainer, batches = open_with(config)
    assert "[CUDAGRAPH] Capture failed: CUDA graphs need an NVIDIA GPU" in caplog.text
    assert "[CUDAGRAPH] Falling back to eager mode" in caplog.text
    report = next(train(config, trainer, batches)).report
    exact = run_reference(SHAPE, 1)
    assert float((report["lior"].double() - exact["lior/0"]).abs().max()) < 1e-5


def test_symmetric_nudging_is_an_option_of_the_configuration() -> None:
    trainer, batches = open_with(replace(PROFILING, symmetric_nudging=True))
    assert trainer.run(batches[0])["lior"].shape == (3,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"static_shapes": False}, "needs static_shapes=True"),
        ({"capture_batch_size": 32}, "set capture_batch_size=3"),
        ({"step_progress_every": 8}, "can't stop to print"),
        ({"warmup_steps": 0}, "at least 1 window"),
    ],
)
def test_a_configuration_that_breaks_the_documents_constraints_is_refused(changes: dict, words: str) -> None:
    good = replace(PRODUCTION, capture_batch_size=SIZES.batch)
    check_config(good, SIZES)
    with pytest.raises(UserError, match=words):
        check_config(replace(good, **changes), SIZES)


def test_a_batch_of_another_size_is_refused_by_name() -> None:
    trainer, batches = open_with(PROFILING)
    short = {name: tensor[:2] for name, tensor in batches[1].items()}
    promised = replace(PROFILING, static_shapes=True, capture_batch_size=SIZES.batch)
    with pytest.raises(UserError, match="batch 1 has 2 tokens, static_shapes=True promised 3"):
        list(train(promised, trainer, [batches[0], short]))


def test_numbers_that_differ_are_refused_by_the_gate_with_place_and_size() -> None:
    exact = run_reference(SHAPE, 1)["retrieved/0"]
    strict = workload.tiers["strict"]
    allowance = Allowance(rtol=strict.rtol, atol=strict.atol, times_baseline=strict.times_baseline)
    found = {
        mix: judge("output", "retrieved", 0, run_windows(build(Switches(mix=mix), SHAPE), SHAPE, 1)["retrieved/0"], exact,
                   allowance, None)
        for mix in ("float32", "float16")
    }  # fmt: skip
    assert found["float32"].outcome == "pass"
    assert found["float16"].outcome == "fail"
    assert "times what the tier allows (rtol 1e-05, atol 1e-05); largest error" in found["float16"].message


@pytest.mark.gpu
def test_on_a_gpu_a_bank_of_changing_length_makes_the_capture_fail_and_the_window_run_eagerly(caplog) -> None:
    with caplog.at_level(logging.WARNING, logger="phasewise.lior"):
        made = build(Switches(**CAPTURED, bank="filled"), SHAPE, "cuda")
    assert "[CUDAGRAPH] Capture failed" in caplog.text
    assert made.fallbacks[0].startswith("cuda-graph: the capture failed")
    assert worst_error(run_windows(made, SHAPE), run_reference(SHAPE)) < 2e-5
