"""Risks that more than one phase runs."""

from __future__ import annotations

from phasewise import Risk

STALE = Risk(
    "Replays read stale inputs",
    probability="medium",
    impact="high",
    symptom="the first batch's numbers for every batch",
    mitigation="batches are copied into the graph's own tensors",
    contingency="run eagerly",
    check="second-call",
)
CAPTURE_FAILS = Risk(
    "The capture fails",
    probability="medium",
    impact="medium",
    symptom="[CUDAGRAPH] Capture failed, then the eager window",
    mitigation="static shapes, no .item(), a warm-up before the capture",
    contingency="the eager window, with the reason on record",
    check="graph-equals-eager",
)
DRIFT = Risk(
    "Loss curves drift apart over windows",
    probability="low",
    impact="high",
    symptom="loss, angles or metric off by more than 1e-4 after 100 windows",
    mitigation="float32 everywhere but in the mix, direct differences",
    contingency="drop the phase",
    check="loss-curves",
)
