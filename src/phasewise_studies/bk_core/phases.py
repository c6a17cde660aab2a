"""The diagonal of (H - zI)^-1 for batches of tridiagonal H: from a Python loop to one pass over memory."""

from __future__ import annotations

from phasewise import Case, Check, Idea, Needs, Peer, Phase, Shape, Workload
from phasewise_studies.bk_core.goals import RISKS, TARGETS, TIERS
from phasewise_studies.bk_core.switches import Switches

FORWARD = ("forward", "forward-batched", "causal", "documented", "documented-long")
BACKWARD = ("backward-a", "backward-abc")
ONE_SOLVE = "one solve of the same size: no library gives the diagonal of the inverse, which needs N of them"
CUDA = Needs(cuda=True)
KERNEL = Needs(cuda=True, modules=("triton",), capability=(7, 5))


def _bandwidth(tiny: tuple[int, int] | None, *, batched: bool, export: bool = False) -> Case:
    """A size at which bytes bound the time: 8.4 million positions; batch and length at `tiny`."""
    return Case(
        tiny=Shape(batch=tiny[0], length=tiny[1], batched=batched) if tiny else None,
        small=Shape(batch=1024, length=2048, batched=batched),
        full=Shape(batch=4096, length=2048, batched=batched),
        inputs="resident",
        sample_items=256,
        export=export,
    )


def _latency(batch: int, length: int, tiny: Shape | None) -> Case:
    """A size of the user's document: latency, not traffic."""
    shape = Shape(batch=batch, length=length, batched=False)
    return Case(tiny=tiny, small=shape, full=shape, inputs="resident", export=False)


def environment(switches: Switches) -> dict[str, str]:
    """What must stand before anything is imported: jax takes no memory before it needs it."""
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


# on a CPU none of them is bound by bytes: `tiny` has one case forward and one backward
CASES = {
    # b and c shared by the batch: 12 bytes an element
    "forward": _bandwidth((32, 127), batched=False, export=True),
    # 20 bytes an element
    "forward-batched": _bandwidth(None, batched=True),
    # 1/d_i, which no later position can change: for language models
    "causal": _bandwidth((8, 127), batched=False, export=True),
    # dL/da from a and dL/dG: 16 bytes an element
    "backward-a": _bandwidth(None, batched=False),
    # dL/da, dL/db, dL/dc of batched couplings: 32 bytes an element
    "backward-abc": _bandwidth((4, 63), batched=True),
    "documented": _latency(8, 1024, Shape(batch=2, length=128, batched=False)),
    "documented-long": _latency(16, 4096, None),
}

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
            risks=RISKS["mixed-precision"],
        ),
        Phase(
            "compile",
            {"core": "compiled-loop"},
            because="serial-loop",
            expect=(3, 40),
            cases=("forward",),
            method="torch.compile of sixteen steps at a time",
            risks=RISKS["compile"],
        ),
        Phase(
            "scan",
            {"core": "scan"},
            because="serial-loop",
            expect=(0.5, 10),
            keep=False,
            cases=("forward",),
            method="log-depth scan of 2 x 2 matrices",
            risks=RISKS["scan"],
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
            risks=RISKS["triton-fused"],
        ),
        Phase(
            "analytic-backward",
            {"analytic": True},
            because="excess-traffic",
            expect=(100, 10_000),
            cases=BACKWARD,
            needs=KERNEL,
            method="adjoint recursions in one Triton pass",
            risks=RISKS["analytic-backward"],
        ),
        Phase(
            "autotune",
            {"tuned": True},
            because=Idea("chunk length and warps a row were chosen by counting, not by trying"),
            expect=(1.0, 1.3),
            cases=("forward", "forward-batched", "backward-a", "backward-abc"),
            needs=KERNEL,
            method="launches tried once a GPU model, kept in a file that names it",
            risks=RISKS["autotune"],
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
            risks=RISKS["cuda-extension"],
        ),
        Phase(
            "cuda-graph",
            {"graph": True},
            because="launch-gaps",
            expect=(1.2, 6),
            cases=("documented", "documented-long"),
            needs=CUDA,
            method="one CUDA graph for each resident batch, nothing copied",
            risks=RISKS["cuda-graph"],
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
        Peer(
            "accelerated-scan",
            cases=("forward",),
            package="accelerated-scan",
            needs=Needs(cuda=True, modules=("accelerated_scan", "triton")),
        ),
    ),
    tiers=TIERS,
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
    unmeasured={
        "cuSolverDx's gtsv_no_pivot (nvmath-python)": "a function to be called from within a kernel, which would be ours and has not "
        "been tried; it makes one solve, as cuSPARSE does, where the diagonal needs N of them",
    },
)
