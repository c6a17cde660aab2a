"""A language model on the BK core: the training step of the user's document, from a loop over positions to one CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise import Check, Idea, Needs, Phase, Risk, Target, Workload
from phasewise_studies.resnet_bk.cases import CASES, FLOAT32, HALF, TIED, TIERS


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change; the defaults are the document's model before any optimization."""

    # loop or fused
    core: str = "loop"
    # loop over the experts with masks, or wide: one network with gated hidden units
    experts: str = "loop"
    # float32, bfloat16 or float16 (with a gradient scaler)
    precision: str = "float32"
    # vocabulary padded for tensor cores
    padded: bool = False
    # cross-entropy that stores no logits, AdamW in one kernel
    fused_update: bool = False
    compiled: bool = False
    graph: bool = False
    # micro-batches of one step
    accumulate: int = 1
    # moments in host memory, AdamW on the CPU
    offload: bool = False
    # halve the micro-batch when memory runs out
    adapt: bool = False
    ranks: int = 1
    # carry one complex number a layer from token to token instead of running the prefix again
    streaming: bool = False


TRAINING = ("documented", "causal")
GPU = Needs(cuda=True)
KERNELS = Needs(cuda=True, modules=("triton",), capability=(7, 5))


def _ranks_risk() -> Risk:
    return Risk(
        "Ranks drift apart",
        probability="low",
        impact="high",
        symptom="losses of the ranks differ",
        mitigation="every rank averages the same gradients; each sees other rows, the mean is the whole batch's",
        contingency="train on one GPU",
        check="ranks-agree",
    )


workload = Workload(
    summary="Training step and decoding of ResNet-BK, a language model with a tridiagonal inverse in place of attention",
    switches=Switches,
    program="phasewise_studies.resnet_bk.program",
    cases=CASES,
    tiers=TIERS,
    parts={
        "speed": (
            Target("speedup", case="documented", against="baseline", minimum=10, target=30, stretch=100,
                   name="step over the loop baseline, documented size"),
        ),
        "memory": (),
        "several-gpus": (),
    },
    phases=(
        Phase(
            "fused-core", {"core": "fused"}, part="speed", because="serial-loop", expect=(3, 30), documented=(3, 3),
            cases=("documented", "forward"), tolerance=FLOAT32,
            method="the recursion in one kernel, its exact gradient in another",
            risks=(
                Risk("The analytic gradient is not autograd's", "low", "high",
                     symptom="training stalls", mitigation="held to float64 autograd through the plain recursion",
                     contingency="autograd through the loop", check="core-gradient"),
            ),
        ),
        Phase(
            "wide-experts", {"experts": "wide"}, part="speed", because="host-sync", expect=(1.05, 2.5),
            cases=("documented",), tolerance=FLOAT32,
            method="four experts as one network of gated hidden units: static shapes",
            risks=(
                Risk("Tokens reach an expert that they did not choose", "low", "high",
                     symptom="losses differ from the loop's", mitigation="the gate is exactly 0 or 1",
                     contingency="loop over the experts", check="routing"),
            ),
        ),
        Phase(
            "amp", {"precision": "bfloat16"}, part="speed", because="matmul-in-fp32", expect=(1.2, 2.5),
            documented=(2, 2), cases=("documented",), tolerance=HALF,
            method="autocast to bfloat16; routing, core and moments stay float32",
            targets=(
                Target("speedup", case="documented", against="parent", minimum=1.5, target=2, name="AMP, time, launch by launch"),
                Target("peak_memory_bytes", case="documented", against="parent", minimum=0.6, target=0.5,
                       name="AMP, memory against float32"),
            ),
            risks=(
                Risk("Half precision changes what is learnt", "medium", "high",
                     symptom="the loss curve leaves float32's", mitigation="router, core, softmax and moments in float32",
                     contingency="float32 with tf32 products", check="loss-curve"),
            ),
        ),
        Phase(
            "amp-fp16", {"precision": "float16"}, onto="wide-experts", keep=False, because="matmul-in-fp32",
            part="speed", expect=(1.1, 2.5), documented=(2, 2), cases=("documented",), tolerance=HALF,
            method="autocast to float16 with a gradient scaler; overflows are counted",
            risks=(
                Risk("Gradients overflow", "medium", "medium", symptom="skipped steps",
                     mitigation="the scale is halved at an overflow, and the step not taken",
                     contingency="bfloat16", check="overflow-is-counted"),
            ),
        ),
        Phase(
            "at-once", {"core": "fused", "experts": "wide", "precision": "bfloat16"}, part="speed", because="serial-loop",
            expect=(5, 60), cases=("causal", "published"), tolerance=HALF,
            method="what `documented` gains one by one, for the cases that only go on from there",
            risks=(
                Risk("The causal gradient is not autograd's", "low", "high",
                     symptom="training stalls", mitigation="held to float64 autograd through the plain recursion",
                     contingency="autograd through the loop", check="core-gradient"),
            ),
        ),
        Phase(
            "tensor-core-shapes", {"padded": True}, part="speed", because="misaligned-matmul", expect=(1.05, 2.5),
            documented=(1.5, 1.5), cases=("published",), tolerance=HALF,
            method="76,617 classes padded to 76,672; the classes that do not exist stand at minus infinity",
            risks=(
                Risk("Padding takes part in the softmax", "low", "high", symptom="losses too high",
                     mitigation="a bias of minus infinity has probability 0 and no gradient",
                     contingency="the published vocabulary as it is", check="padding"),
            ),
        ),
        Phase(
            "fused-update", {"fused_update": True}, part="speed", because="excess-traffic", expect=(1.3, 4),
            cases=TRAINING, needs=KERNELS, tolerance=HALF,
            method="head and cross-entropy in one pass without logits, AdamW in one kernel",
            risks=(
                Risk("The running softmax loses digits", "low", "high", symptom="the loss curve leaves float32's",
                     mitigation="sums in float32, every row rescaled by its largest score", contingency="plain loss",
                     check="fused-loss"),
            ),
        ),
        Phase(
            "compile", {"compiled": True}, part="speed", because="fusible-chain", expect=(1.1, 3),
            cases=("documented",), tolerance=HALF, method="torch.compile of all that comes before the head",
            risks=(
                Risk("Compiled code computes something else", "low", "high", symptom="losses differ",
                     mitigation="one graph, static shapes", contingency="eager blocks", check="loss-curve"),
            ),
        ),
        Phase(
            "streaming", {"streaming": True}, part="speed", because=Idea("1/d_i follows from 1/d_{i-1} alone"),
            expect=(5, 200), cases=("decode",), tolerance=FLOAT32,
            method="one complex number a layer and row is carried from token to token",
            risks=(
                Risk("The carried state drifts from the full pass", "low", "high", symptom="logits differ late in a text",
                     mitigation="a wrong pivot is forgotten within some twenty steps at eta = 1",
                     contingency="run the prefix again", check="streaming-matches"),
            ),
        ),
        Phase(
            "cuda-graph", {"graph": True}, part="speed", because="launch-gaps", expect=(1.2, 6),
            cases=(*TRAINING, "decode"), needs=GPU, tolerance=HALF,
            method="forward, backward, clip and update replayed as one CUDA graph",
            risks=(
                Risk("Replays read stale inputs", "medium", "high", symptom="the first batch's loss for every batch",
                     mitigation="inputs are copied into the graph's own", contingency="launch eagerly",
                     check="second-call"),
            ),
        ),
        Phase(
            "graph-without-amp", {"precision": "float32"}, onto="cuda-graph", part="speed", keep=False,
            because=Idea("beside launch gaps AMP gains nothing: what is it worth once they are gone?"), expect=(0.15, 0.8),
            cases=("documented",), needs=GPU, tolerance=FLOAT32, method="the same graph in float32, with the library's head",
        ),
        Phase(
            "accumulate", {"accumulate": 4}, onto="amp", part="memory", keep=False, because="memory-capacity", expect=(0.4, 1.0),
            cases=("documented", "capped"), tolerance=HALF,
            method="four micro-batches a step, their gradients added",
            targets=(
                Target("peak_memory_bytes", case="documented", against="parent", minimum=0.6, target=0.35,
                       name="four micro-batches, memory"),
            ),
        ),
        Phase(
            "offload", {"offload": True}, onto="amp", part="memory", keep=False, because="memory-capacity", expect=(0.1, 1.0),
            cases=("documented",), tolerance=HALF, method="moments in host memory, AdamW on the CPU",
            targets=(
                Target("peak_memory_bytes", case="documented", against="parent", minimum=1.0, target=0.95,
                       name="moments on the CPU, memory"),
            ),
        ),
        Phase(
            "dynamic-batch", {"adapt": True}, part="memory", keep=False, because="memory-capacity", expect=(0.4, 1.0),
            cases=("capped",), tolerance=TIED,
            method="the micro-batch is halved when memory runs out, and the step made again",
            risks=(
                Risk("A step that ran out of memory leaves something behind", "medium", "high",
                     symptom="losses differ from an uncapped run's", mitigation="each try begins with no gradients",
                     contingency="a fixed micro-batch", check="halving"),
            ),
        ),
        Phase(
            "ddp-2", {"ranks": 2}, onto="fused-update", part="several-gpus", keep=False, because=Idea("twice the rows a second"),
            expect=(1.5, 2.0), cases=("causal",), needs=Needs(cuda=True, gpus=2), tolerance=HALF,
            method="DistributedDataParallel, gradients averaged while the backward pass runs", risks=(_ranks_risk(),),
        ),
        Phase(
            "ddp-4", {"ranks": 4}, onto="fused-update", part="several-gpus", keep=False, because=Idea("four times the rows a second"),
            expect=(3.0, 4.0), cases=("causal",), needs=Needs(cuda=True, gpus=4), tolerance=HALF,
            method="the same on four GPUs", risks=(_ranks_risk(),),
        ),
        Phase(
            "ranks-2-graph", {"ranks": 2}, onto="cuda-graph", part="several-gpus", keep=False, because="exposed-communication",
            expect=(1.7, 2.0), cases=("causal",), needs=Needs(cuda=True, gpus=2), tolerance=HALF,
            method="two CUDA graphs with one all-reduce of 17 MB between them", risks=(_ranks_risk(),),
        ),
        Phase(
            "ranks-4-graph", {"ranks": 4}, onto="cuda-graph", part="several-gpus", keep=False, because="exposed-communication",
            expect=(3.4, 4.0), cases=("causal",), needs=Needs(cuda=True, gpus=4), tolerance=HALF,
            method="the same on four GPUs", risks=(_ranks_risk(),),
        ),
    ),
    checks=(
        Check("loss-curve", when="kept", cases=("documented",)),
        Check("loss-curve", when="final", cases=("causal",)),
        Check("parameters-follow", when="kept", cases=TRAINING),
        Check("future", when="final", cases=TRAINING),
        Check("losses-fall", when="final", cases=TRAINING),
        Check("same-losses-after-resume", when="final", cases=TRAINING),
        Check("streaming-matches", when="final", cases=("decode",)),
    ),
    targets=(
        Target("items_per_s", case="documented", minimum=3e6, target=10e6, name="tokens a second, documented configuration"),
        Target("speedup", case="documented", against="graph-without-amp", minimum=1.5, target=2, name="AMP, time, in the graph",
               # to be taken out when this is measured again: graph-without-amp now keeps the library's head
               disowned="it is what the fused head needs of AMP, not AMP's worth: in float32 its kernels do without tensor cores"),
        Target("scaling_efficiency", case="causal", minimum=0.85, target=0.95, name="efficiency on most GPUs"),
    ),
    considered={
        "sorting tokens by expert": "a sort, two gathers and grouped products save 0.4 MFLOP of a token's 15; one wide "
        "network costs less than the sort's launches",
        "fusing LayerNorm into the core": "the core reads 4 and writes 8 bytes a token, LayerNorm 256 and 128: nothing is shared",
        "complex64 recursion with a complex128 division": "bk_core measures it; the ratio form needs neither",
        "ZeRO-style sharding of the moments": "34 MB of moments fit anywhere; the logits are what fills memory",
    },
)  # fmt: skip
