"""The diagonal of (H - zI)^-1 for batches of tridiagonal H: from a Python loop to one pass over memory."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise import Check, Idea, Needs, Peer, Phase, Risk, Tolerance, Workload
from phasewise_studies.bk_core.cases import BACKWARD, CASES, FORWARD, TARGETS


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change."""

    # loop, compiled-loop, textbook, mixed, scan, fused or extension: the form of the recursion
    core: str = "loop"
    # gradients by the adjoint recursions and not by autograd
    analytic: bool = False
    # launches found by trying
    tuned: bool = False
    # record the step once, then replay it
    graph: bool = False


ONE_SOLVE = "one solve of the same size: no library gives the diagonal of the inverse, which needs N of them"
CUDA = Needs(cuda=True)
KERNEL = Needs(cuda=True, modules=("triton",), capability=(7, 5))


def environment(switches: Switches) -> dict[str, str]:
    """What must stand before anything is imported: jax takes no memory before it needs it."""
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


workload = Workload(
    summary="Diagonal of the inverse of tridiagonal matrices, (H - zI)^-1, in batches",
    switches=Switches,
    program="phasewise_studies.bk_core.program",
    environment=environment,
    cases=CASES,
    phases=(
        Phase(
            "textbook",
            {"core": "textbook"},
            because=Idea("the document's own form: theta and phi, without rescaling"),
            keep=False,
            must="INVALID",
            cases=("forward", "documented"),
            method="theta/phi recursions in complex64",
        ),
        Phase(
            "mixed-precision",
            {"core": "mixed"},
            because=Idea("the document: recursion in complex64, last division in complex128, a switch"),
            expect=(0.8, 1.0),
            documented=(2, 2),
            keep=False,
            cases=("forward", "documented"),
            method="complex64 ratio recursion, complex128 division",
            risks=(
                Risk(
                    "Rounding errors of complex64 survive where little is forgotten",
                    probability="medium",
                    impact="medium",
                    symptom="errors over 1e-4 at small eta",
                    mitigation="below eta = 0.1 the recursion is made in complex128",
                    contingency="complex128 throughout",
                    check="hundred-inputs",
                ),
            ),
        ),
        Phase(
            "compile",
            {"core": "compiled-loop"},
            because="serial-loop",
            expect=(3, 40),
            cases=("forward",),
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
            cases=("forward",),
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
            cases=FORWARD,
            needs=KERNEL,
            method="one Triton pass: a warp walks along a row",
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
            "analytic-backward",
            {"analytic": True},
            because="excess-traffic",
            expect=(100, 10_000),
            cases=BACKWARD,
            needs=KERNEL,
            method="adjoint recursions in one Triton pass",
            risks=(
                Risk(
                    "The formula is not the gradient",
                    probability="low",
                    impact="high",
                    symptom="training goes uphill, as the document's hybrid gradient did",
                    mitigation="derived as the reverse of the forward recursion, held against the dense inverse",
                    contingency="autograd through the loop",
                    check="true-gradient",
                ),
            ),
        ),
        Phase(
            "autotune",
            {"tuned": True},
            because=Idea("chunk length and warps a row were chosen by counting, not by trying"),
            expect=(1.0, 1.3),
            cases=("forward", "forward-batched", "backward-a", "backward-abc"),
            needs=KERNEL,
            method="launches tried once a GPU model, kept in a file that names it",
            risks=(
                Risk(
                    "A launch of another GPU is used",
                    probability="low",
                    impact="low",
                    symptom="slower than the usual choice",
                    mitigation="the file names the GPU and the kernels' hash",
                    contingency="delete the file",
                    by_hand="the records hold the time of both",
                ),
            ),
        ),
        Phase(
            "cuda-extension",
            {"core": "extension"},
            because="excess-traffic",
            expect=(0.9, 1.4),
            keep=False,
            cases=("forward", "causal"),
            needs=Needs(cuda=True, capability=(8, 0)),
            method="CUDA C++: segments arrive two ahead in shared memory, no barrier in the walk",
            risks=(
                Risk(
                    "A tail is left unwritten by the extension",
                    probability="medium",
                    impact="high",
                    symptom="wrong only at odd lengths",
                    mitigation="two forms of loads and stores, by alignment",
                    contingency="the Triton kernel",
                    check="odd-lengths",
                ),
                Risk(
                    "There is no compiler",
                    probability="high",
                    impact="low",
                    symptom="a warning that says why",
                    mitigation="the Triton kernel answers",
                    contingency="none needed",
                    by_hand="validation reads `fallback` and the record holds the reason",
                ),
            ),
        ),
        Phase(
            "cuda-graph",
            {"graph": True},
            because="launch-gaps",
            expect=(1.2, 6),
            cases=("documented", "documented-long"),
            needs=CUDA,
            method="one CUDA graph for each resident batch, nothing copied",
            risks=(
                Risk(
                    "Replays read stale inputs",
                    probability="medium",
                    impact="high",
                    symptom="the first batch's result for every batch",
                    mitigation="a graph for each set of addresses; others launch eagerly",
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
        Check("bounded", cases=FORWARD),
        Check("dense-inverse", when="kept", cases=FORWARD),
        Check("odd-lengths", when="kept", cases=FORWARD),
        Check("blind-to-the-future", when="kept", cases=("causal",)),
        Check("hundred-inputs", cases=("forward",)),
        Check("true-gradient", when="kept", cases=BACKWARD),
        Check("finite-when-long", when="final", cases=FORWARD),
        Check("documented-sizes", when="final", cases=("documented",)),
    ),
    targets=TARGETS,
    considered={
        "theta/phi in complex128": "overflows too, from a length of 960 on; it is slower and not the answer",
        "a halo of fixed length": "exact to float32 for eta = 1, where 24 positions forget a wrong start; not in general",
        "couplings' gradients from saved pivots": "8 more bytes an element than to make the pivots again",
    },
)
