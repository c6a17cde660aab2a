"""The variants of the diversity of given embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from phasewise import Program
from phasewise.kit.graphs import capture_in_place
from phasewise.kit.kernels import runs_kernels
from phasewise_studies.polychromic.model.diversity import diversity_broadcast, diversity_closed
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.common import place


def build_diversity(switches: Switches, inputs: dict[str, Tensor], device: torch.device) -> Program:
    """unit vectors -> score and marginals."""
    compute, fallbacks = choose_diversity(switches, device)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        score, marginals = compute(batch["e"])
        return {"score": score, "marginals": marginals}

    run: Callable[[dict[str, Tensor]], Any] = step
    if switches.diversity_graph:
        captured = capture_in_place(step, place(inputs, device))
        run = captured.call
        fallbacks += (f"diversity-graph: {captured.reason}",) if captured.reason else ()
    return Program(step=run, place=lambda batch: place(batch, device), fallbacks=fallbacks)


def choose_diversity(
    switches: Switches, device: torch.device
) -> tuple[Callable[[Tensor], tuple[Tensor, Tensor]], tuple[str, ...]]:
    """The function of this variant, and why it is not the one that was asked for."""
    if switches.diversity == "closed":
        return diversity_closed, ()
    if switches.diversity == "triton":
        from phasewise_studies.polychromic.kernels.diversity_triton import diversity_triton

        reason = (
            () if runs_kernels(device) else ("triton-diversity: no NVIDIA GPU, the closed form in PyTorch ran instead",)
        )
        return diversity_triton, reason
    if switches.diversity == "cuda":
        from phasewise_studies.polychromic.kernels.diversity_cuda import diversity_cuda, why_not

        reason = why_not(device)
        # asked once: where nvcc refuses, every call would ask it again
        return (diversity_closed, (f"cuda-extension: {reason}",)) if reason else (diversity_cuda, ())
    return diversity_broadcast, ()
