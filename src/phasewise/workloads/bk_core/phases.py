"""The diagonal of (H - zI)^-1 for batches of tridiagonal H: from a Python loop to one pass over memory."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise import Case, Check, Idea, Needs, Peer, Phase, Risk, Shape, Target, Tolerance, Workload


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change."""

    # loop, compiled-loop, textbook, scan or fused: the form of the recursion
    core: str = "loop"
    # record the step once, then replay it
    graph: bool = False


ONE_SOLVE = "one solve of the same size: no library gives the diagonal of the inverse, which needs N of them"
CUDA = Needs(cuda=True)


def environment(switches: Switches) -> dict[str, str]:
    """What must stand before anything is imported: jax takes no memory before it needs it."""
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


workload = Workload(
    summary="Diagonal of the inverse of tridiagonal matrices, (H - zI)^-1, in batches",
    switches=Switches,
    program="phasewise.workloads.bk_core.program",
    environment=environment,
    cases={
        # b and c shared by the batch: 12 bytes an element
        "forward": Case(
            tiny=Shape(batch=32, length=255, batched=False),
            small=Shape(batch=1024, length=2048, batched=False),
            full=Shape(batch=4096, length=2048, batched=False),
            inputs="resident",
            sample_items=256,
        ),
        # a size of the user's document: latency, not traffic
        "documented": Case(
            tiny=Shape(batch=2, length=128, batched=False),
            small=Shape(batch=8, length=1024, batched=False),
            full=Shape(batch=8, length=1024, batched=False),
            inputs="resident",
        ),
    },
    phases=(
        Phase(
            "textbook",
            {"core": "textbook"},
            because=Idea("the document's own form: theta and phi, without rescaling"),
            keep=False,
            must="INVALID",
            method="theta/phi recursions in complex64",
        ),
        Phase(
            "compile",
            {"core": "compiled-loop"},
            because="serial-loop",
            expect=(3, 40),
            method="torch.compile of sixteen steps at a time",
            risks=(
                Risk(
                    "The compiler reorders the recursion",
                    probability="low",
                    impact="high",
                    symptom="errors grow with the length",
                    mitigation="each step depends on the one before",
                    contingency="stay with the eager loop",
                    check="bounded",
                ),
            ),
        ),
        Phase(
            "scan",
            {"core": "scan"},
            because="serial-loop",
            expect=(0.5, 10),
            keep=False,
            method="log-depth scan of 2 x 2 matrices",
            risks=(
                Risk(
                    "Products of matrices overflow",
                    probability="medium",
                    impact="high",
                    symptom="NaN from some length on",
                    mitigation="rescale by powers of two at every level",
                    contingency="stay with the loop",
                    check="finite-when-long",
                ),
            ),
        ),
        Phase(
            "triton-fused",
            {"core": "fused"},
            because="excess-traffic",
            expect=(20, 3000),
            documented=(5, 5),
            needs=Needs(cuda=True, modules=("triton",), capability=(7, 5)),
            method="one Triton pass: chunk products, scan, replay",
            risks=(
                Risk(
                    "A tail is left unwritten",
                    probability="medium",
                    impact="high",
                    symptom="wrong only at odd lengths",
                    mitigation="masks on every load and store",
                    contingency="fall back to the scan",
                    check="odd-lengths",
                ),
                Risk(
                    "Results change between repeats",
                    probability="low",
                    impact="medium",
                    symptom="bits differ",
                    mitigation="no atomics",
                    contingency="fall back to the scan",
                    check="bitwise-repeatable",
                ),
            ),
        ),
        Phase(
            "cuda-graph",
            {"graph": True},
            because="launch-gaps",
            expect=(1.2, 6),
            cases=("documented",),
            needs=CUDA,
            method="one CUDA graph a step",
            risks=(
                Risk(
                    "Replays read stale inputs",
                    probability="medium",
                    impact="high",
                    symptom="the first batch's result for every batch",
                    mitigation="inputs are copied into the graph's own",
                    contingency="launch eagerly",
                    check="second-call",
                ),
            ),
        ),
    ),
    peers=(
        Peer(
            "cusparse-strided",
            cases=("forward",),
            package="cupy-cuda13x",
            needs=Needs(cuda=True, modules=("cupy",)),
            different=ONE_SOLVE,
        ),
        Peer(
            "cusparse-interleaved",
            cases=("forward",),
            package="cupy-cuda13x",
            needs=Needs(cuda=True, modules=("cupy",)),
            different=ONE_SOLVE,
        ),
        Peer(
            "jax-solve",
            cases=("forward",),
            package="jax",
            needs=Needs(cuda=True, modules=("jax",)),
            different=ONE_SOLVE,
        ),
        Peer("torch-associative-scan", cases=("forward",), package="torch", needs=CUDA),
    ),
    tiers={
        # float32 rounding through a contracting recursion, resnet_bk specification section 1.A
        "strict": Tolerance(2e-6, 2e-7, times_baseline=8),
        "moderate": Tolerance(1e-5, 1e-6, times_baseline=32),
        # the document's own criterion
        "relaxed": Tolerance(1e-4, 1e-4),
    },
    checks=(
        Check("bounded"),
        Check("dense-inverse", when="kept"),
        Check("odd-lengths", when="kept"),
        Check("finite-when-long", when="final"),
    ),
    targets=(
        Target(
            "time_s",
            case="forward",
            minimum=47e-6,
            target=29e-6,
            stretch=26e-6,
            name="forward 4096 x 2048, shared b and c",
        ),
        Target(
            "floor_fraction",
            case="forward",
            minimum=0.5,
            target=0.8,
            stretch=0.9,
            name="forward, fraction of the byte floor",
        ),
        Target("time_s", case="documented", minimum=20e-6, target=6e-6, stretch=4e-6, name="forward 8 x 1024"),
        Target(
            "speedup",
            case="forward",
            against="cusparse-strided",
            minimum=10,
            target=25,
            stretch=50,
            name="over one cuSPARSE complex solve",
        ),
        Target(
            "speedup", case="forward", against="baseline", minimum=5, target=100, stretch=1000, name="over the loop"
        ),
    ),
    considered={
        "theta/phi in complex128": "overflows too, from a length of 960 on; it is slower and not the answer",
        "halo instead of a scan": "exact to float32 for eta = 1, where 24 steps forget a wrong start; not in general",
    },
)
