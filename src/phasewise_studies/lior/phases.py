"""A contrastive trainer without autograd: from thousands of launches a window to one graph, and from there to algebra."""

from __future__ import annotations

from phasewise import Case, Check, Peer, Shape, Target, Tolerance, Workload
from phasewise_studies.lior import beyond, documented
from phasewise_studies.lior.switches import CUDA, Switches


def _case(batch: int, feedback: bool, *, young: bool = False) -> Case:
    """A window pair; a young bank is a quarter full, an old one lacks a few rows."""
    return Case(
        tiny=Shape(
            batch=max(batch // 8, 2), steps=8, bank=96, state=32, grid=8, inner=4, filled=24 if young else 90,
            feedback=feedback,
        ),
        small=Shape(
            batch=batch, steps=64, bank=2048, state=512, grid=16, inner=8, filled=512 if young else 2040,
            feedback=feedback,
        ),
        full=Shape(
            batch=batch, steps=64, bank=2048, state=512, grid=28, inner=16, filled=512 if young else 2040,
            feedback=feedback,
        ),
        inputs="resident",
        # the float64 reference takes seconds a window
        steps=2,
    )  # fmt: skip


workload = Workload(
    summary="Two-phase windows of a contrastive trainer without autograd: field, retrieval, manual updates",
    switches=Switches,
    program="phasewise_studies.lior.program",
    cases={
        "feedback-32": _case(32, True),
        "open-32": _case(32, False),
        "feedback-8": _case(8, True, young=True),
        "open-8": _case(8, False, young=True),
    },
    parts={
        "phase-1": (),
        "phase-2": (),
        "phase-3": (
            Target(
                "speedup",
                case="feedback-32",
                against="baseline",
                minimum=1.10,
                target=1.15,
                name="implemented gains of the document: 10-15 %",
            ),
        ),
        "phase-4": (
            Target(
                "speedup",
                case="feedback-32",
                against="baseline",
                minimum=1.25,
                target=1.35,
                name="potential of the document: 25-35 %",
            ),
        ),
        "deferred": (),
        "beyond": (),
    },
    phases=(*documented.PHASES, *beyond.PHASES),
    peers=(
        Peer("torch-compile-reduce-overhead", package="torch", cases=("feedback-32",), needs=CUDA),
        Peer("torch-compile-max-autotune", package="torch", cases=("feedback-32",), needs=CUDA),
        Peer("plain-cuda-graph", package="torch", cases=("feedback-32", "open-32"), needs=CUDA),
        Peer("sdpa", package="torch", cases=("open-32",), needs=CUDA),
        Peer("flex-attention", package="torch", cases=("open-32",), needs=CUDA),
    ),
    tiers={
        # lior.md section 4.A: LIoR, R and spd within 1e-5 a window, y within 1e-4
        "strict": Tolerance(1e-5, 1e-5, times_baseline=64),
        "moderate": Tolerance(1e-4, 2e-5, times_baseline=256),
        "relaxed": Tolerance(2e-3, 1e-3, times_baseline=1e6),
    },
    checks=(
        Check("field-closed-form", when="kept", cases=("open-32", "open-8")),
        Check("rotors-orthogonal", when="kept"),
        Check("attention", when="kept", cases=("feedback-32", "open-32")),
        Check("nudge-is-linear", when="final"),
        Check("loss-curves", when="final", cases=("feedback-32", "open-32")),
        Check("batch-sizes", when="final", cases=("feedback-32",)),
        Check("resume", when="kept"),
        Check("resume-is-identical", when="final", cases=("feedback-32", "open-32")),
        Check("memory-stays-flat", when="final", cases=("feedback-32", "open-32")),
        Check("hundred-epochs", when="final", cases=("feedback-32",)),
        Check("graph-equals-eager", when="final"),
    ),
    targets=(
        Target("time_s", case="feedback-32", minimum=1.2e-3, target=0.7e-3, name="feedback window pair"),
        Target("time_s", case="open-32", minimum=0.5e-3, target=0.3e-3, name="open window pair"),
        Target(
            "speedup", case="feedback-32", against="baseline", minimum=10, target=30, name="over the user's trainer"
        ),
        Target(
            "speedup",
            case="feedback-32",
            against="torch-compile-reduce-overhead",
            minimum=2,
            target=5,
            name="over torch.compile reduce-overhead",
        ),
        Target(
            "memory growth",
            case="feedback-32",
            minimum=1 << 20,
            target=0,
            unit="B",
            better="lower",
            name="memory growth over 1000 windows",
        ),
        Target("synchronisations", case="feedback-32", minimum=0, name="waits for the device, a window pair"),
        Target("device_to_host", case="feedback-32", minimum=1, name="copies to the host, a window pair"),
    ),
    considered={
        "one kernel for a step's retrieval": "a softmax over the whole bank needs an exchange between programs; without one "
        "a single multiprocessor would evaluate 65,536 costs, about 8 us a step",
        "atomics for the mean weights": "their order changes the bits; graph and eager have to agree bit for bit",
        "the field in Fourier space": "mean |T| needs real space at every step: 90 MFLOP of transforms against 4 of the stencil",
        "distances by matrix product": "|C|^2 - 2 C q + |q|^2 is off by 5e-6 in float32, and the root near a match makes 2e-3",
    },
)
