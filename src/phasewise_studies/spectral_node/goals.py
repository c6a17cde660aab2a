"""What the workload is judged by, what may go wrong, and what was weighed and not done. Imports no torch."""

from __future__ import annotations

from phasewise import Risk, Target, Tolerance

TARGETS = (
    Target("time_s", case="christoffel", minimum=4e-3, target=1e-3, stretch=0.4e-3, name="Gamma grid 2000 x 601, 2-128-256-1"),
    Target("time_s", case="solve", minimum=0.5e-3, target=0.3e-3, name="1,230,848 boundary-value problems by the closed form"),
    Target("time_s", case="couple", minimum=2.5e-3, target=1.2e-3, stretch=0.3e-3, name="1,230,848 problems end to end, with the coupled pass"),
    Target("time_s", case="transitions", minimum=80e-6, target=40e-6, stretch=20e-6, name="18,030 boundary-value problems"),
    Target("time_s", case="train", minimum=1e-3, target=0.4e-3, name="training step over 18,030 trajectories"),
    Target("speedup", case="solve", against="baseline", minimum=500, target=1e5, stretch=1e6, name="over one problem at a time"),
    Target("seconds of 500 epochs", case="train", unit="s", better="lower", minimum=1.0, target=0.5, name="500 epochs"),
    # the user's document, "Expected metrics on A100 GPU"; a sample of its own is a spectrum of 601 trajectories
    Target("items_per_s", case="train", minimum=6000 * 601, name="document: more than 6000 samples/s, as trajectories"),
    Target("time_s", case="train", minimum=3.0, name="document: epoch under 3 s"),
    Target("utilisation", case="solve", minimum=0.9, name="document: GPU utilisation above 90 %"),
    Target("peak_memory_bytes", case="train", minimum=12e9, target=8e9, name="document: 8 to 12 GB"),
    Target("speedup", case="transitions", against="baseline", minimum=400, target=500, name="document: 400 to 500 x over sequential"),
)  # fmt: skip

# of the kernel that takes the same steps as the peers: ten iterations of Newton, twenty steps of RK4 in each
SAME_STEPS = (
    Target("time_s", case="solve", minimum=1.5e-3, target=0.9e-3, name="1,230,848 problems, 10 Newton x 20 RK4"),
    Target("speedup", case="solve", against="diffrax", minimum=50, target=150, name="over diffrax, same steps"),
    Target(
        "speedup", case="solve", against="torch-compile", minimum=2, target=4, name="over torch.compile, same steps"
    ),
)

TIERS = {
    # specification 2.A: endpoint and v0 to 1e-5, of concentrations and speeds that are about 1
    "strict": Tolerance(5e-6, 5e-6, times_baseline=64, why="endpoint and v0 to 1e-5, as the document asks"),
    "moderate": Tolerance(1e-5, 1e-5, times_baseline=512),
    "relaxed": Tolerance(1e-4, 1e-4, times_baseline=1e4),
}

# by phase
RISKS = {
    "grid": (
        Risk(
            "The lookup reads another cell",
            "high",
            "high",
            symptom="straight lines instead of geodesics",
            mitigation="one linear interpolation in c, rows are wavelengths",
            contingency="ask the network",
            check="lookup-exact",
        ),
    ),
    "triton-fused": (
        Risk(
            "Newton leaves the table",
            "medium",
            "high",
            symptom="NaN or a wrong root",
            mitigation="a saturating multiply-add holds the lookup inside",
            contingency="clamp in PyTorch",
            check="invariant",
        ),
        Risk(
            "A tail is left unwritten",
            "medium",
            "high",
            symptom="wrong only for odd numbers of transitions",
            mitigation="masks on every load and store",
            contingency="the compiled form",
            check="odd-sizes",
        ),
    ),
    "nodes": (
        Risk(
            "The metric is rougher than its nodes",
            "low",
            "high",
            symptom="Gamma is wrong between nodes",
            mitigation="the last coefficients are looked at",
            contingency="more nodes, or the kernel alone",
            check="nodes-resolve",
        ),
    ),
    "closed-form": (
        Risk(
            "The closed form solves another problem",
            "low",
            "high",
            symptom="v0 differs from shooting",
            mitigation="held against shooting in float64",
            contingency="the fused kernel",
            check="closed-form-agrees",
        ),
    ),
    "closed-training": (
        Risk(
            "Gradients miss the metric",
            "medium",
            "high",
            symptom="the metric does not learn",
            mitigation="the path carries them",
            contingency="unrolled autograd",
            check="gradients-agree",
        ),
    ),
    "cuda-graph": (
        Risk(
            "Replays read stale inputs",
            "medium",
            "high",
            symptom="the first batch's result for every batch",
            mitigation="inputs are copied into the graph's own",
            contingency="launch eagerly",
            check="second-call",
        ),
    ),
}

CONSIDERED = {
    "TF32 for the networks": "a tangent in TF32 errs by 1e-3 and the gate asks for 1e-5; the kernel uses TF32 in three parts instead",
    "GroupNorm": (
        "it adds a mean and a variance over the units to every evaluation and to both of its tangents, and changes g; the network "
        "is 3 layers deep and trains without it; what it costs: check proposals-measured"
    ),
    "a fused softplus of its own": (
        "softplus is one value a point, after 2 (H1 + H2) tanh: it is inside triton-christoffel, at no traffic; what it takes of an "
        "evaluation, by operators and by a kernel: check proposals-measured"
    ),
    "a memory pool of one's own": (
        "the fused step allocates nothing while a graph replays; what the allocator costs the closed form is the phase allocator, and "
        "what a pool brings an evaluation that allocates: check proposals-measured"
    ),
    "a memory fraction": "set_per_process_memory_fraction limits and does not speed up; the harness has memory_limit_bytes for it",
    "cuDNN flags": "no operator here reaches cuDNN",
    "model parallelism": "the networks have 8,641 and 209 weights beside their embedding: any exchange is longer than the work",
    "CuPy": "everything scipy would do here is an interpolation or a matrix product, which PyTorch has",
    "Lightning": "a training loop of one step that is one graph replay leaves it nothing to organise",
    "adaptive steps": "one trajectory's error decides for all, or each has its own steps and warps diverge; 20 steps are at 3e-7 already",
    "NVIDIA's nvprof": "withdrawn for GPUs since compute capability 8.0; Nsight Systems and Nsight Compute take its place",
    "torch.jit.script and trace": "deprecated; torch.compile and torch.export take their place",
    "nn.DataParallel": "one process for all GPUs, replaced by DistributedDataParallel in its own documentation",
    "solving each distinct problem once": (
        "a mega batch of 2048 draws from 30 transitions holds 30 different ones: 18,030 problems, not 1.23 million. The cases "
        "solve and couple draw concentrations at random, so that every problem is different"
    ),
}

# of other packages
UNMEASURED = {
    "DiffEqGPU.jl": "it wants Julia; its authors' own data are cited in the study's notes",
}
