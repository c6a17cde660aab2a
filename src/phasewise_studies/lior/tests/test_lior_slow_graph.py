"""Slower with a graph than without: the harness says so."""

from __future__ import annotations

import logging

import torch

from phasewise.measure import compare
from phasewise.records.plan import Budget
from phasewise.stats import decide_status

LITTLE = Budget(
    min_rounds=6, max_rounds=6, min_sets=5, max_sets=5, block_s=0.005, block_steps=2, seconds=180, timeout_s=200
)  # fmt: skip


def test_a_graph_that_is_captured_again_for_every_window_is_reported_slower() -> None:
    logging.disable(logging.WARNING)
    try:
        found = compare(
            {
                "eager": "phasewise_studies.lior.tests.lior_slow_graph:run_eagerly",
                "recaptured": "phasewise_studies.lior.tests.lior_slow_graph:capture_again",
            },
            setup="phasewise_studies.lior.tests.lior_slow_graph:prepare",
            device="cuda" if torch.cuda.is_available() else "cpu",
            budget=LITTLE,
        )
    finally:
        logging.disable(logging.NOTSET)
    ratio = found.ratios["recaptured"]
    assert ratio is not None
    # four windows' work for one's: by how much, a loaded machine need not tell
    assert ratio.estimate < 0.7 and ratio.high < 1.0
    assert decide_status(ratio, aa_floor=0.02).status == "SLOWER"
    assert "times as fast as eager" in found.describe()
