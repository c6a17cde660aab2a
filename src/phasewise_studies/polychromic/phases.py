"""Fine-tuning on a language model's own sampled replies: from one reply after another to a decode loop of our own."""

from __future__ import annotations

from phasewise import Idea, Needs, Peer, Phase, Risk, Tolerance, Workload
from phasewise_studies.polychromic.cases import CASES
from phasewise_studies.polychromic.goals import CHECKS, CONSIDERED, PARTS, RISKS, TARGETS, TIERS, UNMEASURED
from phasewise_studies.polychromic.switches import EVERYTHING, GRAPHED, Switches

CUDA = Needs(cuda=True)
TRITON = Needs(cuda=True, modules=("triton",), capability=(7, 5))
# bfloat16 needs compute capability 8; a CPU without matrix units is slower in it
BFLOAT16 = Needs(cuda=True, capability=(8, 0))
AMPERE = Needs(cuda=True, modules=("triton",), capability=(8, 0))

# bfloat16 keeps 8 bits: a logit of 16 is rounded by up to 0.06, and 30 layers add to that
HALF = Tolerance(
    2e-2, 1e-1, times_baseline=1e6, unit="nats or probability",
    why="bfloat16 activations: a plain pass is off by 0.04 (rms of the log-probabilities); the check log-probabilities holds it closer",
)  # fmt: skip
TRAIN, DECODE = ("train-step",), ("train-step", "decode")

SAMPLED = Risk(
    "Sampled texts are not those of the model", probability="medium", impact="high",
    symptom="tokens that their uniform numbers do not pick",
    mitigation="every token is audited in float64 given what was sampled before it",
    contingency="fall back to the plain loop", check="greedy-as-plain",
)  # fmt: skip
RACE = Risk(
    "Results change between repeats", probability="low", impact="high", symptom="bits differ",
    mitigation="sums in a fixed order, no floating-point atomics",
    contingency="fall back to the plain form", check="bitwise-repeatable",
)  # fmt: skip

LIBRARIES = (
    Phase(
        "faithful", {"mode": "faithful"},
        because=Idea("the document's own loss, whose diversity term has no gradient"), keep=False, must="INVALID", cases=TRAIN,
        method="diversity as a constant of the loss: the gate refuses the adapters that it trains",
        risks=(Risk(
            "Diversity does not train", probability="certain", impact="high", symptom="100 steps leave it where it was",
            mitigation="mode set_pg", contingency="do not compute it at all",
            by_hand="it comes true by construction; the check gradient-of-diversity puts the 0 on record",
        ),),
    ),
    Phase(
        "amp", {"half": True}, part="tier-1",
        because="matmul-in-fp32", expect=(0.9, 1.6), needs=BFLOAT16, tolerance=HALF, cases=("train-step", "micro-step", "encode"),
        method="frozen weights in bfloat16, adapters in float32",
        risks=(Risk(
            "Gradients lose their direction", probability="low", impact="high", symptom="cosine to float64 under 0.999",
            mitigation="norms, softmax, loss and adapters in float32", contingency="float32", check="lora-gradients",
        ),),
    ),
    Phase(
        "sdpa", {"sdpa": True}, part="tier-1",
        because="fusible-chain", expect=(1.0, 1.5), documented=(1.5, 2), tolerance=HALF,
        cases=("train-step", "micro-step", "encode"), method="torch SDPA (FlashAttention 2, cuDNN)",
    ),
    Phase(
        "batched-encode", {"encoder_batched": True}, part="tier-1",
        because="serial-loop", expect=(1.0, 8), tolerance=HALF, cases=("train-step", "encode"),
        method="all texts in one pass, normalised",
        risks=(Risk(
            "Padding changes embeddings", probability="medium", impact="medium",
            symptom="a text's vector depends on its neighbours",
            mitigation="masked attention and mean", contingency="one text at a time", check="embeddings-apart",
        ),),
    ),
    Phase(
        "checkpointing", {"checkpointing": True}, part="tier-1",
        because=Idea("the document trains with it, so that 8 B parameters fit: it buys memory with time"),
        expect=(0.6, 0.95), keep=False, tolerance=HALF, cases=("micro-step",), method="layers computed again in the backward pass",
    ),
)  # fmt: skip

TRITON_TIER = (
    Phase(
        "batched-replies", {"batching": "micro"}, part="tier-2",
        because="serial-loop", expect=(1.5, 4), documented=(2, 3), tolerance=HALF, cases=TRAIN,
        method="all replies of a micro-batch together", risks=(SAMPLED,),
    ),
    Phase(
        "window-batch", {"batching": "window"}, part="tier-2",
        because="serial-loop", expect=(1.2, 2.2), tolerance=HALF, cases=TRAIN,
        method="all replies of the accumulation window together", risks=(SAMPLED,),
    ),
    Phase(
        "eager-window", {"batching": "window", "half": True, "sdpa": True}, part="tier-2", onto="batched-encode",
        because="serial-loop", expect=(3, 14), tolerance=HALF, cases=("decode",),
        method="all replies together, bfloat16, cache that grows", risks=(SAMPLED,),
    ),
    Phase(
        "shared-cache", {"shared_cache": True}, part="tier-2",
        because="excess-traffic", expect=(0.8, 1.5), tolerance=HALF, cases=DECODE,
        method="static caches, the prompt's kept once", risks=(SAMPLED,),
    ),
    Phase(
        "device-sampling", {"device_sampling": True}, part="tier-2",
        because=Idea("a graph of a token, the next phase, can't wait for a host that picks it"),
        expect=(1.0, 1.3), needs=TRITON, tolerance=HALF, cases=("decode",),
        method="temperature and top-p in a Triton kernel, no wait a token",
        risks=(Risk(
            "The distribution is another", probability="medium", impact="high", symptom="frequencies off",
            mitigation="the same inverse distribution function as the reference", contingency="sort and pick",
            check="sampled-frequencies",
        ), RACE),
    ),
    Phase(
        "cuda-graph-decode", GRAPHED, part="tier-2",
        because="launch-gaps", expect=(2, 8), needs=TRITON, tolerance=HALF, cases=("decode", "replies"),
        method="one CUDA graph a token", risks=(SAMPLED,),
    ),
    Phase(
        "closed-form", {"diversity": "closed"}, part="tier-2",
        because="serial-loop", expect=(2, 2000), cases=("diversity",), method="from the sum of the embeddings, no n x n matrix",
    ),
    Phase(
        "triton-diversity", {"diversity": "triton"}, part="tier-2",
        because="excess-traffic", expect=(1.5, 12), documented=(2, 3), needs=TRITON, cases=("diversity",),
        method="one Triton pass: sum, score and marginals",
        risks=(Risk(
            "Off by more than atol 1e-4", probability="low", impact="medium", symptom="scores differ from PyTorch's",
            mitigation="float32 sums", contingency="closed form in PyTorch", check="pairs-agree",
        ), RACE),
    ),
)  # fmt: skip

OWN_KERNELS = (
    Phase(
        "cuda-extension", {"diversity": "cuda"}, part="tier-3", onto="closed-form",
        because="near-the-roof", expect=(0.7, 1.3), documented=(3, 4), needs=CUDA, cases=("diversity",), keep=False,
        method="raw CUDA, built at first use",
        risks=(Risk(
            "No compiler, another GPU", probability="medium", impact="low", symptom="the build fails",
            mitigation="built for the GPU at hand, or loaded prebuilt",
            contingency="closed form, with the reason in the record", check="pairs-agree",
        ), RACE),
    ),
    Phase(
        "diversity-graph", {"diversity": "triton", "diversity_graph": True}, part="tier-3",
        because="launch-gaps", expect=(1.0, 2.5), needs=TRITON, cases=("diversity",),
        method="the kernel as a CUDA graph that reads vectors where they lie",
    ),
    Phase(
        "encoder-graph", {"encoder_graph": True}, part="tier-3",
        because="launch-gaps", expect=(2, 10), needs=CUDA, tolerance=HALF, cases=("encode",),
        method="the encoder as one CUDA graph",
    ),
    Phase(
        "fused-decode", {**GRAPHED, "fused_decode": True}, part="tier-3",
        because="small-kernels", expect=(2, 30), needs=AMPERE, tolerance=HALF, cases=("train-step", "decode", "replies"),
        method="our decode loop: five kernels a layer, in raw CUDA or in Triton", risks=(SAMPLED, RACE),
    ),
    Phase(
        "lora-step",
        {"flat_update": True, "update_graph": True, "fused_learning": True, "encoder_graph": True, "diversity": "triton"},
        part="tier-3",
        because="launch-gaps", expect=(1.3, 16), needs=TRITON, tolerance=HALF, cases=("train-step", "micro-step"),
        method="layers of 29 kernels forward and backward instead of 218, as a CUDA graph; one optimizer kernel",
        risks=(Risk(
            "A graph trains on stale data", probability="medium", impact="high",
            symptom="the first batch's loss for every batch",
            mitigation="inputs are copied into the graph's own", contingency="launch eagerly", check="second-call",
        ), Risk(
            "Resume differs", probability="low", impact="high", symptom="another loss after loading",
            mitigation="state and load are one pair", contingency="launch eagerly", check="resume",
        )),
    ),
    Phase(
        "whole-stack", EVERYTHING, part="tier-3", onto="eager-window",
        because=Idea("the document's sizes, where the earlier forms take a minute a step"),
        needs=AMPERE, tolerance=HALF, cases=("window", "many-steps", "replies-24"),
        method="all kept phases at the document's sizes",
    ),
    Phase(
        "document-model", EVERYTHING | {"fused_decode": False}, part="tier-3", onto="eager-window",
        because=Idea("the document's 12 h are of Qwen3-8B, which a small model's speed says nothing of"),
        needs=Needs(cuda=True, modules=("triton",), capability=(8, 0), memory_bytes=130 * 10**9),
        tolerance=HALF, cases=("window-8b",),
        method="Qwen3-8B's shape, random weights: decoding by graphs of PyTorch's kernels, fused learning",
    ),
    Phase(
        "document-kernels", {"fused_decode": True}, part="tier-3", onto="document-model", keep=False,
        because=Idea("a token reads 16 GB of weights whoever multiplies: what are the loop's own Triton kernels worth there?"),
        expect=(0.7, 1.4), needs=Needs(cuda=True, modules=("triton",), capability=(8, 0), memory_bytes=130 * 10**9),
        tolerance=HALF, cases=("window-8b",),
        method="the same with five Triton kernels a layer; the attention norms and turns queries and the new key",
    ),
)  # fmt: skip

OWN_DRAWS = "it draws random numbers of its own, so its texts cannot be held against the reference"
TRANSFORMERS = Needs(cuda=True, modules=("transformers",))

PEERS = (
    Peer("generate-batched", package="transformers", needs=TRANSFORMERS, cases=("replies",), different=OWN_DRAWS),
    Peer("generate-static-compiled", package="transformers", needs=TRANSFORMERS, cases=("replies", "replies-24"), different=OWN_DRAWS),
    Peer("generate-continuous", package="transformers", needs=TRANSFORMERS, cases=("replies",), different=OWN_DRAWS),
    Peer(
        "generate-sequential", package="transformers", needs=TRANSFORMERS, cases=("train-step",),
        different="generation alone, one reply after another, without learning; it draws random numbers of its own",
    ),
    Peer("sentence-transformers", package="sentence-transformers", needs=Needs(modules=("sentence_transformers",)), cases=("encode",)),
    Peer("cosine-matrix", package="sentence-transformers", needs=Needs(modules=("sentence_transformers",)), cases=("diversity",)),
    Peer("torch-batched", package="torch", cases=("diversity",)),
    Peer("compiled-closed-form", package="torch", needs=CUDA, cases=("diversity",)),
    Peer(
        "liger", package="liger-kernel", needs=Needs(cuda=True, modules=("liger_kernel", "transformers", "peft")), cases=("micro-step",),
        different="its adapters are PEFT's, drawn by PEFT",
    ),
    Peer(
        "unsloth", package="unsloth", needs=Needs(cuda=True, modules=("unsloth",)), cases=("micro-step",),
        different="its adapters are its own, drawn by itself",
    ),
)  # fmt: skip

workload = Workload(
    summary="LoRA fine-tuning with sampled replies and a semantic diversity that trains",
    switches=Switches,
    program="phasewise_studies.polychromic.program",
    cases=CASES,
    parts=PARTS,
    phases=(*LIBRARIES, *TRITON_TIER, *OWN_KERNELS),
    peers=PEERS,
    tiers=TIERS,
    checks=CHECKS,
    targets=TARGETS,
    risks=RISKS,
    considered=CONSIDERED,
    unmeasured=UNMEASURED,
)
