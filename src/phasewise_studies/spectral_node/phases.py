"""Geodesics for spectra: from one boundary-value problem at a time to no boundary-value problem at all."""

from __future__ import annotations

from phasewise import Case, Check, Idea, Needs, Peer, Phase, Shape, Tolerance, Workload
from phasewise_studies.spectral_node.goals import CONSIDERED, RISKS, SAME_STEPS, TARGETS, TIERS, UNMEASURED
from phasewise_studies.spectral_node.switches import Switches


def environment(switches: Switches) -> dict[str, str]:
    """What must stand before torch or jax is imported."""
    found = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return found | ({"PYTORCH_CUDA_ALLOC_CONF": switches.allocator} if switches.allocator else {})


TRITON = Needs(cuda=True, modules=("triton",), capability=(7, 5))
# the user's document: 601 wavelengths, 2000 columns of the grid, 10 Newton steps; 20 RK4 steps leave 3e-7
SOLVER = {"wavelengths": 601, "columns": 2000, "first": 64, "second": 128, "steps": 20, "newton": 10}
# one problem at a time is the baseline: a handful of them; 10 steps leave 1e-6
TINY = SOLVER | {"wavelengths": 2, "columns": 500, "first": 16, "second": 32, "steps": 10, "newton": 4}
LEARNER = {"wavelengths": 601, "first": 64, "second": 128, "steps": 20, "newton": 10}


def one_by_one(**sizes: int) -> dict[str, tuple[Shape, Shape]]:
    """Two shapes at which the sequential baseline is measured per item: one wavelength and two, networks and steps as ever."""
    return {
        size: (Shape(**made | sizes | {"wavelengths": 1}), Shape(**made | sizes | {"wavelengths": 2}))
        for size, made in (("tiny", TINY), ("small", SOLVER), ("full", SOLVER))
    }


workload = Workload(
    summary="Geodesics of a learnt metric on concentrations, 1.23 million boundary-value problems at once, and spectra along them",
    switches=Switches,
    program="phasewise_studies.spectral_node.program",
    environment=environment,
    cases={
        # pairs of concentrations drawn from [-1, 1], so that no problem is there twice: 2048 x 601 = 1,230,848
        "solve": Case(
            tiny=Shape(**TINY, pairs=2),
            small=Shape(**SOLVER, pairs=512),
            full=Shape(**SOLVER, pairs=2048),
            inputs="resident",
            sample_items=256,
            baseline_at=one_by_one(pairs=1),
        ),
        # the document's own set: 30 transitions of 6 levels, 18,030 problems; latency decides
        "transitions": Case(
            tiny=Shape(**TINY, levels=2),
            small=Shape(**SOLVER, levels=6),
            full=Shape(**SOLVER, levels=6),
            inputs="resident",
            baseline_at=one_by_one(levels=2),
        ),
        # as `solve`, and one pass of the coupled state [c, v, A]
        "couple": Case(
            tiny=Shape(**TINY, pairs=2),
            small=Shape(**SOLVER, pairs=512),
            full=Shape(**SOLVER, pairs=2048),
            inputs="resident",
            sample_items=256,
            baseline_at=one_by_one(pairs=1),
        ),
        # the lookup grid itself, from the largest network
        "christoffel": Case(
            # more columns than the 128 nodes; tensors so small that a batch in float64 beats the loop on a CPU too
            tiny=Shape(columns=200, wavelengths=12, first=16, second=16),
            small=Shape(columns=2000, wavelengths=601, first=128, second=256),
            full=Shape(columns=2000, wavelengths=601, first=128, second=256),
            inputs="resident",
            sample_items=256,
            steps=2,
        ),
        # all transitions, forward, backward and both optimizers; 4 levels give 12 of them, micro-batches of 10 and 2
        "train": Case(
            tiny=Shape(**LEARNER | {"wavelengths": 3, "first": 16, "second": 32, "steps": 6, "newton": 3}, levels=4),
            small=Shape(**LEARNER, levels=6),
            full=Shape(**LEARNER, levels=6),
            inputs="resident",
        ),
    },
    phases=(
        Phase("batched", {"form": "batched"}, because="serial-loop", expect=(50, 2e6), documented=(400, 500),
              cases=("transitions", "christoffel"), method="all problems in one batch"),
        Phase("autocast-difference", {"difference": "bfloat16"}, keep=False, must="INVALID", cases=("christoffel",),
              because=Idea("the document asks for AMP and for finite differences: together they are noise"),
              method="finite difference under autocast"),
        Phase("float32-difference", {"difference": "float32"}, keep=False, must="INVALID", cases=("christoffel",),
              because=Idea("a half-step of 1e-4 leaves float32 three digits"),
              method="finite difference in float32"),
        Phase("tf32-difference", {"difference": "tf32"}, keep=False, must="INVALID", cases=("christoffel",),
              needs=Needs(cuda=True, capability=(8, 0)),
              because=Idea("TF32 rounds g at 5e-4, the difference is 1e-4"),
              method="finite difference in TF32"),
        Phase("exact-tangent", {"gamma": "tangent"}, because=Idea("value and tangent in two evaluations, in float32"),
              expect=(1.3, 6), cases=("transitions", "christoffel"), method="exact tangent, float32"),
        Phase("damped", {"newton": "damped"}, keep=False, must="INVALID", cases=("transitions",),
              because=Idea("the document's update is no Newton step: 1e-3 is left after ten"),
              method="v0 - alpha (c(1) - stop)"),
        Phase("grid", {"form": "batched", "gamma": "grid"},
              because=Idea("a billion evaluations of the network fall between the same 1.2 million points"),
              expect=(2, 2e6), documented=(1000, 1000), cases=("solve", "transitions", "couple"), method="lookup grid of Gamma, a row for each wavelength",
              risks=RISKS["grid"]),
        Phase("true-newton", {"newton": "exact"}, because=Idea("a geodesic is the same curve at any speed: dc(1)/dv0 = v(1)/v0"),
              expect=(1.4, 2.2), cases=("solve", "transitions"), method="one integration an iteration"),
        Phase("compile", {"compiled": True}, because="fusible-chain", expect=(3, 60), cases=("solve", "transitions"),
              method="torch.compile of RK4 steps (on a GPU ten at a time)"),
        Phase("triton-fused", {"form": "fused", "compiled": False}, because="excess-traffic", expect=(1.5, 60), needs=TRITON,
              cases=("solve", "transitions", "couple"), method="shoot (and couple) in one kernel, state in registers",
              targets=SAME_STEPS,
              risks=RISKS["triton-fused"]),
        Phase("triton-christoffel", {"gamma": "kernel"}, because="excess-traffic", expect=(2, 12), needs=TRITON,
              cases=("christoffel",), method="network, tangent and quotient in one kernel (TF32 in three parts)"),
        Phase("nodes", {"gamma": "nodes"}, because=Idea("a smooth row is known from 128 nodes: 16 times fewer evaluations"),
              expect=(2, 12), cases=("christoffel",), method="Chebyshev nodes and one matrix product",
              risks=RISKS["nodes"]),
        Phase("recompute", {"recompute": True}, keep=False, expect=(0.5, 1), cases=("train",),
              because=Idea("the document asks for checkpointing: steps are done twice, their inside is not kept"),
              method="checkpoint each RK4 step"),
        Phase("accumulate", {"micro": 10}, keep=False, expect=(0.2, 1), cases=("train",),
              because=Idea("the document trains in micro-batches, so that a batch may be larger than memory"),
              method="micro-batches of 10 transitions"),
        Phase("adjoint", {"gradient": "adjoint"}, keep=False, expect=(0.2, 1.2), cases=("train",),
              because=Idea("the document asks for the adjoint: nothing of the way there is kept"),
              method="adjoint equation, backwards in time"),
        Phase("closed-form", {"form": "closed"}, because=Idea("one-dimensional metrics are flat"),
              expect=(2, 500), cases=("solve", "transitions", "couple"),
              method="arc length: two lookups instead of shooting",
              risks=RISKS["closed-form"]),
        Phase("closed-training", {"gradient": "closed"}, because=Idea("integrated over concentration, no node depends on the metric"),
              expect=(5, 200), cases=("train",), method="closed form under autograd",
              risks=RISKS["closed-training"]),
        Phase("amp", {"autocast": "float16"}, keep=False, because="matmul-in-fp32", expect=(0.6, 1.3), cases=("train",),
              needs=Needs(cuda=True, capability=(7, 0)),
              documented=(2, 3), tolerance=Tolerance(1e-2, 4e-3, times_baseline=1e9, why="half precision; Adam turns small gradients into whole steps"),
              method="float16 with tangents, GradScaler from 2^16"),
        Phase("streams", {"streams": True}, keep=False, expect=(0.8, 1.05),
              because=Idea("the document asks for a stream each; but each has to wait for the one before"),
              needs=Needs(cuda=True), cases=("train",), method="forward, backward, update on a stream each"),
        Phase("allocator", {"allocator": "expandable_segments:True"}, keep=False, expect=(0.9, 1.1),
              because=Idea("the document asks for allocator settings: what one of them is worth where a step allocates"),
              needs=Needs(cuda=True), cases=("train",), method="expandable segments"),
        Phase("fused-training", {"gradient": "fused", "fused_adam": True}, because="fusible-chain", expect=(3, 40),
              needs=TRITON, cases=("train",), method="forward and backward along all paths in one kernel, fused Adam"),
        Phase("compiled-metric", {"compiled": True}, because="fusible-chain", expect=(1.1, 2.5), needs=TRITON,
              cases=("train",), method="torch.compile of the metric and its curvature, forward and backward"),
        Phase("cuda-graph", {"graph": True}, because="launch-gaps", expect=(1.5, 10), needs=Needs(cuda=True),
              cases=("solve", "transitions", "train"), method="one CUDA graph a step",
              risks=RISKS["cuda-graph"]),
        Phase("ddp", {"ranks": 2, "graph": False}, keep=False, because=Idea("half of the transitions on each GPU"), expect=(0.3, 1.2),
              needs=Needs(cuda=True, gpus=2), cases=("train",), method="DistributedDataParallel"),
    ),
    peers=(
        # the closed form takes no steps; these take the steps of the kernel
        Peer("torch-compile", package="torch", cases=("solve",), beside="triton-fused"),
        Peer("diffrax", package="diffrax", needs=Needs(modules=("diffrax",)), cases=("solve",), beside="triton-fused"),
        Peer("cubie", package="cubie", needs=Needs(cuda=True, modules=("cubie", "numba_cuda_mlir")), cases=("solve",), beside="triton-fused"),
        Peer("torchdiffeq-rk4", package="torchdiffeq", needs=Needs(modules=("torchdiffeq",)), cases=("solve",), beside="triton-fused"),
        Peer("torchode", package="torchode", needs=Needs(modules=("torchode",)), cases=("transitions",)),
        Peer("torchdiffeq-adjoint", package="torchdiffeq", needs=Needs(modules=("torchdiffeq",)), cases=("train",),
             different="dopri5 and its adjoint choose their own steps, at rtol 1e-5 and atol 1e-7: gradients differ by 1e-4 of themselves"),
    ),
    tiers=TIERS,
    checks=(
        Check("invariant", when="kept", cases=("solve", "transitions", "couple")),
        Check("all-transitions", when="final", cases=("transitions",)),
        Check("closed-form-agrees", when="final", cases=("solve", "transitions", "couple")),
        Check("gradients-agree", when="final", cases=("train",)),
        Check("overflow-is-counted", when="final", cases=("train",)),
        Check("resume", when="final", cases=("train",)),
        Check("leave-one-out", when="final", cases=("train",)),
        Check("real-spectra", when="final", cases=("train",)),
        Check("five-hundred-epochs", when="final", cases=("train",)),
        Check("largest-batch", when="final", cases=("train",)),
        Check("compressed-holds", when="final", cases=("couple",)),
        Check("proposals-measured", when="final", cases=("christoffel",)),
        Check("bitwise-repeatable", when="final"),
    ),
    targets=TARGETS,
    considered=CONSIDERED,
    unmeasured=UNMEASURED,
)  # fmt: skip
