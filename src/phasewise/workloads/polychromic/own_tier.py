"""The phases of the third tier: kernels and graphs of our own."""

from __future__ import annotations

from phasewise import Idea, Phase, Risk
from phasewise.workloads.polychromic.tiers import ALL_OF_IT, AMPERE, CUDA, GRAPHED, HALF, RACE, SAMPLED, TRITON

OWN_KERNELS = (
    Phase(
        "cuda-extension",
        {"diversity": "cuda"},
        part="tier-3",
        because="near-the-roof",
        expect=(0.7, 1.3),
        documented=(3, 4),
        needs=CUDA,
        cases=("diversity",),
        keep=False,
        onto="closed-form",
        method="raw CUDA, built at first use",
        risks=(
            Risk(
                "No compiler, another GPU",
                probability="medium",
                impact="low",
                symptom="the build fails",
                mitigation="built for the GPU at hand, or loaded prebuilt",
                contingency="closed form, with the reason in the record",
                check="pairs-agree",
            ),
            RACE,
        ),
    ),
    Phase(
        "encoder-graph",
        {"encoder_graph": True},
        part="tier-3",
        because="launch-gaps",
        expect=(2, 10),
        needs=CUDA,
        tolerance=HALF,
        cases=("encode",),
        method="the encoder as one CUDA graph",
    ),
    Phase(
        "fused-decode",
        {**GRAPHED, "fused_decode": True},
        part="tier-3",
        because="small-kernels",
        expect=(2, 30),
        needs=AMPERE,
        tolerance=HALF,
        cases=("train-step", "decode", "replies"),
        method="our decode loop: five Triton kernels a layer or one for all layers",
        risks=(SAMPLED, RACE),
    ),
    Phase(
        "lora-step",
        {"flat_update": True, "update_graph": True, "encoder_graph": True, "diversity": "triton"},
        part="tier-3",
        because="launch-gaps",
        expect=(1.3, 5),
        needs=TRITON,
        tolerance=HALF,
        cases=("train-step", "micro-step"),
        method="forward and backward as a CUDA graph, one optimizer kernel",
        risks=(
            Risk(
                "A graph trains on stale data",
                probability="medium",
                impact="high",
                symptom="the first batch's loss for every batch",
                mitigation="inputs are copied into the graph's own",
                contingency="launch eagerly",
                check="second-call",
            ),
            Risk(
                "Resume differs",
                probability="low",
                impact="high",
                symptom="another loss after loading",
                mitigation="state and load are one pair",
                contingency="launch eagerly",
                check="resume",
            ),
        ),
    ),
    Phase(
        "whole-stack",
        ALL_OF_IT,
        onto="eager-window",
        part="tier-3",
        because=Idea("the document's sizes, where the earlier forms take a minute a step"),
        needs=AMPERE,
        tolerance=HALF,
        cases=("window", "many-steps", "replies-24"),
        method="all kept phases at the document's sizes",
    ),
)
