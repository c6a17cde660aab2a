"""A language model on the BK core: the training step of the user's document, from a loop over positions to one CUDA graph."""

from __future__ import annotations

from phasewise import Case, Check, Idea, Needs, Peer, Phase, Shape, Workload
from phasewise_studies.resnet_bk.goals import (
    CONSIDERED,
    FLOAT32,
    HALF,
    PARTS,
    PHASE_TARGETS,
    RISKS,
    TARGETS,
    TIED,
    TIERS,
)
from phasewise_studies.resnet_bk.switches import Switches

TRAINING = ("documented", "causal")
# without a loss
INFERENCE = ("forward", "decode")
GPU = Needs(cuda=True)
KERNELS = Needs(cuda=True, modules=("triton",), capability=(7, 5))
FLASH = Needs(cuda=True, modules=("fla", "einops", "transformers"), capability=(8, 0))
OTHER_MIXER = "the same skeleton with another mixer in place of the tridiagonal inverse: it learns another function, so times are compared and no results"


def _shape(
    batch: int, length: int, vocabulary: int, *, width: int = 64, layers: int = 4, causal: bool = False
) -> Shape:
    return Shape(batch=batch, length=length, vocabulary=vocabulary, width=width, layers=layers, causal=causal)


def _tiny(batch: int, vocabulary: int = 512, *, length: int = 16, causal: bool = False) -> Shape:
    return _shape(batch, length, vocabulary, width=16, layers=2, causal=causal)


CASES = {
    # the document's model: vocabulary 30000, width 64, 4 layers, 128 positions, both directions
    "documented": Case(
        tiny=_tiny(8),
        small=_shape(32, 128, 30_000),
        full=_shape(128, 128, 30_000),
        inputs="resident",
        steps=3,
        export=False,
    ),
    # the same, but no position sees a later one: what next-token loss needs
    "causal": Case(
        tiny=_tiny(8, causal=True),
        small=_shape(32, 128, 30_000, causal=True),
        full=_shape(128, 128, 30_000, causal=True),
        inputs="resident",
        steps=2,
        export=False,
    ),
    # the vocabulary of the document's published run, which is odd
    "published": Case(
        tiny=_tiny(8, 509),
        small=_shape(8, 128, 76_617),
        full=_shape(128, 128, 76_617),
        inputs="resident",
        steps=2,
        export=False,
    ),
    # memory for half of the logits that a step has; at tiny those of a quarter of the rows are just over 32 MiB: a C library
    # gives such blocks back, and keeps smaller ones in pieces
    "capped": Case(
        tiny=_tiny(72, 30_000),
        small=_shape(32, 128, 30_000),
        full=_shape(128, 128, 30_000),
        inputs="resident",
        steps=2,
        memory_limit_bytes={"tiny": 300_000_000, "small": 1_000_000_000, "full": 4_000_000_000},
        export=False,
    ),
    # inference of whole texts, and of one more token; no loss, so both are causal
    "forward": Case(
        tiny=_tiny(2, causal=True),
        small=_shape(2, 128, 30_000, causal=True),
        full=_shape(2, 128, 30_000, causal=True),
        inputs="resident",
    ),
    "decode": Case(
        tiny=_tiny(4, causal=True),
        small=_shape(64, 128, 30_000, causal=True),
        full=_shape(64, 128, 30_000, causal=True),
        inputs="resident",
    ),
}

workload = Workload(
    summary="Training step and decoding of ResNet-BK, a language model with a tridiagonal inverse in place of attention",
    switches=Switches,
    program="phasewise_studies.resnet_bk.program",
    cases=CASES,
    tiers=TIERS,
    parts=PARTS,
    phases=(
        Phase(
            "fused-core", {"core": "fused"}, part="speed", because="serial-loop", expect=(3, 30), documented=(3, 3),
            cases=("documented", "forward"), tolerance=FLOAT32,
            method="the recursion in one kernel, its exact gradient in another",
            risks=(RISKS["fused-core"],),
        ),
        Phase(
            "wide-experts", {"experts": "wide"}, part="speed", because="host-sync", expect=(1.05, 2.5),
            cases=("documented",), tolerance=FLOAT32,
            method="four experts as one network of gated hidden units: static shapes",
            risks=(RISKS["wide-experts"],),
        ),
        Phase(
            # slower launch by launch, and kept: the kernels of fused-update multiply on tensor cores, and all later phases stand on them
            "amp", {"precision": "bfloat16"}, part="speed", because="matmul-in-fp32", expect=(1.2, 2.5),
            documented=(2, 2), cases=("documented",), tolerance=HALF,
            method="autocast to bfloat16; routing, core and moments stay float32",
            stays="fused-update and all after it need it: their loss multiplies in half precision and has no fast float32 form",
            targets=PHASE_TARGETS["amp"],
            risks=(RISKS["amp"],),
        ),
        Phase(
            "amp-fp16", {"precision": "float16"}, onto="wide-experts", keep=False, because="matmul-in-fp32",
            part="speed", expect=(1.1, 2.5), documented=(2, 2), cases=("documented",), tolerance=HALF,
            method="autocast to float16 with a gradient scaler; overflows are counted",
            risks=(RISKS["amp-fp16"],),
        ),
        Phase(
            "at-once", {"core": "fused", "experts": "wide", "precision": "bfloat16"}, part="speed", because="serial-loop",
            expect=(5, 60), cases=("causal", "published"), tolerance=HALF,
            method="what `documented` gains one by one, for the cases that only go on from there",
            risks=(RISKS["at-once"],),
        ),
        Phase(
            "tensor-core-shapes", {"padded": True}, part="speed", because="misaligned-matmul", expect=(1.05, 2.5),
            documented=(1.5, 1.5), cases=("published",), tolerance=HALF,
            method="76,617 classes padded to 76,672; the classes that do not exist stand at minus infinity",
            risks=(RISKS["tensor-core-shapes"],),
        ),
        Phase(
            "fused-update", {"fused_update": True}, part="speed", because="excess-traffic", expect=(1.3, 4),
            cases=TRAINING, needs=KERNELS, tolerance=HALF,
            method="head and cross-entropy in one pass without logits, AdamW in one kernel",
            risks=(RISKS["fused-update"],),
        ),
        Phase(
            "compile", {"compiled": True}, part="speed", because="fusible-chain", expect=(1.1, 3),
            cases=("documented",), tolerance=HALF, method="torch.compile of all that comes before the head",
            risks=(RISKS["compile"],),
        ),
        Phase(
            "streaming", {"streaming": True}, part="speed", because=Idea("1/d_i follows from 1/d_{i-1} alone"),
            expect=(5, 200), cases=("decode",), tolerance=FLOAT32,
            method="one complex number a layer and row is carried from token to token",
            risks=(RISKS["streaming"],),
        ),
        Phase(
            "cuda-graph", {"graph": True}, part="speed", because="launch-gaps", expect=(1.2, 6),
            cases=(*TRAINING, "decode"), needs=GPU, tolerance=HALF,
            method="forward, backward, clip and update replayed as one CUDA graph",
            risks=(RISKS["cuda-graph"],),
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
            targets=PHASE_TARGETS["accumulate"],
        ),
        Phase(
            "offload", {"offload": True}, onto="amp", part="memory", keep=False, because="memory-capacity", expect=(0.1, 1.0),
            cases=("documented",), tolerance=HALF, method="moments in host memory, AdamW on the CPU",
            targets=PHASE_TARGETS["offload"],
        ),
        Phase(
            "dynamic-batch", {"adapt": True}, part="memory", keep=False, because="memory-capacity", expect=(0.4, 1.0),
            cases=("capped",), tolerance=TIED,
            method="the micro-batch is halved when memory runs out, and the step made again",
            risks=(RISKS["dynamic-batch"],),
        ),
        Phase(
            "ddp-2", {"ranks": 2}, onto="fused-update", part="several-gpus", keep=False, because=Idea("twice the rows a second"),
            expect=(1.5, 2.0), cases=("causal",), needs=Needs(cuda=True, gpus=2), tolerance=HALF,
            method="DistributedDataParallel, gradients averaged while the backward pass runs", risks=(RISKS["several-ranks"],),
        ),
        Phase(
            "ddp-4", {"ranks": 4}, onto="fused-update", part="several-gpus", keep=False, because=Idea("four times the rows a second"),
            expect=(3.0, 4.0), cases=("causal",), needs=Needs(cuda=True, gpus=4), tolerance=HALF,
            method="the same on four GPUs", risks=(RISKS["several-ranks"],),
        ),
        Phase(
            "ranks-2-graph", {"ranks": 2}, onto="cuda-graph", part="several-gpus", keep=False, because="exposed-communication",
            expect=(1.7, 2.0), cases=("causal",), needs=Needs(cuda=True, gpus=2), tolerance=HALF,
            method="two CUDA graphs with one all-reduce of 17 MB between them", risks=(RISKS["several-ranks"],),
        ),
        Phase(
            "ranks-4-graph", {"ranks": 4}, onto="cuda-graph", part="several-gpus", keep=False, because="exposed-communication",
            expect=(3.4, 4.0), cases=("causal",), needs=Needs(cuda=True, gpus=4), tolerance=HALF,
            method="the same on four GPUs", risks=(RISKS["several-ranks"],),
        ),
    ),
    peers=(
        Peer("gated-deltanet", package="flash-linear-attention", needs=FLASH, cases=("causal",), different=OTHER_MIXER),
        Peer("gated-linear-attention", package="flash-linear-attention", needs=FLASH, cases=("causal",), different=OTHER_MIXER),
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
    targets=TARGETS,
    considered=CONSIDERED,
)  # fmt: skip
