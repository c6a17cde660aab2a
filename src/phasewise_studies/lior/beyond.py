"""The phases that the document did not think of: what the algebra of a window allows."""

from __future__ import annotations

from phasewise import Idea, Phase, Risk
from phasewise_studies.lior.risks import DRIFT, STALE
from phasewise_studies.lior.switches import CAPTURED, HOPPER, KERNELS

PHASES = (
    Phase(
        "lockstep",
        {"engine": "lockstep", **CAPTURED},
        part="beyond",
        cases=("feedback-32", "feedback-8"),
        needs=KERNELS,
        expect=(4, 20),
        method="free and nudged step together, three kernels a step, one mix at the end",
        because=Idea(
            "the nudged phase needs of the free one only its coordinates at the same step; y enters the field "
            "linearly, so the mix of all steps can wait for the end"
        ),
        risks=(DRIFT, STALE),
    ),
    Phase(
        "time-parallel",
        {"engine": "time-parallel", **CAPTURED},
        part="beyond",
        cases=("open-32", "open-8"),
        needs=KERNELS,
        expect=(40, 300),
        method="the field first, then all steps' retrieval as one product",
        because=Idea("in the open mode the field never hears of the retrieval, so the steps are independent"),
        risks=(DRIFT, STALE),
    ),
    Phase(
        "split-precision",
        {"mix": "split"},
        part="beyond",
        because="matmul-in-fp32",
        cases=("feedback-32", "open-32"),
        needs=KERNELS,
        expect=(1.05, 2.0),
        method="two float16 halves for each float32, three tensor-core products",
    ),
    Phase(
        "compiled-ends",
        {"compiled_ends": True},
        part="beyond",
        because="small-kernels",
        cases=("feedback-32", "open-32"),
        needs=KERNELS,
        expect=(1.02, 1.4),
        method="torch.compile of what comes before and after the steps",
    ),
    Phase(
        "overlap",
        {"overlap": True},
        part="beyond",
        because="launch-gaps",
        cases=("feedback-32",),
        needs=HOPPER,
        expect=(1.0, 1.5),
        method="programmatic dependent launch: constants are fetched while the kernel before ends",
        risks=(
            Risk(
                "A kernel reads before its predecessor has written",
                probability="medium",
                impact="high",
                symptom="bits differ between runs",
                mitigation="every kernel waits before it reads what the step made",
                contingency="launch one after the other",
                check="bitwise-repeatable",
            ),
        ),
    ),
    Phase(
        "persistent",
        {"engine": "persistent"},
        keep=False,
        part="beyond",
        because=Idea("a grid barrier instead of three graph nodes a step"),
        cases=("feedback-32",),
        needs=HOPPER,
        expect=(0.7, 1.4),
        method="all steps in one kernel, a barrier of all programs between the stages",
        risks=(
            Risk(
                "Programs wait for one that never started",
                probability="low",
                impact="high",
                symptom="a hang",
                mitigation="no more programs than multiprocessors, and every wait is bounded",
                contingency="three kernels a step",
                check="no-barrier-gave-up",
            ),
        ),
    ),
)
