"""The phases of the first two tiers of the document: libraries, then Triton."""

from __future__ import annotations

from phasewise import Idea, Needs, Phase, Risk, Tolerance

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
    "Sampled texts are not those of the model",
    probability="medium",
    impact="high",
    symptom="tokens that their uniform numbers do not pick",
    mitigation="every token is audited in float64 given what was sampled before it",
    contingency="fall back to the plain loop",
    check="greedy-as-plain",
)
RACE = Risk(
    "Results change between repeats",
    probability="low",
    impact="high",
    symptom="bits differ",
    mitigation="sums in a fixed order, no floating-point atomics",
    contingency="fall back to the plain form",
    check="bitwise-repeatable",
)

# all of it, since in `replies` and `replies-24` it is the first form that decodes fast enough, and stands on nothing
GRAPHED = {
    "half": True, "sdpa": True, "batching": "window", "shared_cache": True, "device_sampling": True, "decode_graph": True,
}  # fmt: skip
ALL_OF_IT = GRAPHED | {
    "encoder_batched": True, "encoder_graph": True, "diversity": "triton", "fused_decode": True, "flat_update": True,
    "update_graph": True, "fused_learning": True,
}  # fmt: skip

LIBRARIES = (
    Phase(
        "faithful",
        {"mode": "faithful"},
        because=Idea("the document's own loss, whose diversity term has no gradient"),
        keep=False,
        must="INVALID",
        cases=TRAIN,
        method="diversity as a constant of the loss: the gate refuses the adapters that it trains",
        risks=(
            Risk(
                "Diversity does not train",
                probability="certain",
                impact="high",
                symptom="100 steps leave it where it was",
                mitigation="mode set_pg",
                contingency="do not compute it at all",
                by_hand="it comes true by construction; the check gradient-of-diversity puts the 0 on record",
            ),
        ),
    ),
    Phase(
        "amp",
        {"half": True},
        part="tier-1",
        because="matmul-in-fp32",
        expect=(0.9, 1.6),
        needs=BFLOAT16,
        tolerance=HALF,
        cases=("train-step", "micro-step", "encode"),
        method="frozen weights in bfloat16, adapters in float32",
        risks=(
            Risk(
                "Gradients lose their direction",
                probability="low",
                impact="high",
                symptom="cosine to float64 under 0.999",
                mitigation="norms, softmax, loss and adapters in float32",
                contingency="float32",
                check="lora-gradients",
            ),
        ),
    ),
    Phase(
        "sdpa",
        {"sdpa": True},
        part="tier-1",
        because="fusible-chain",
        expect=(1.0, 1.5),
        documented=(1.5, 2),
        tolerance=HALF,
        cases=("train-step", "micro-step", "encode"),
        method="torch SDPA (FlashAttention 2, cuDNN)",
    ),
    Phase(
        "batched-encode",
        {"encoder_batched": True},
        part="tier-1",
        because="serial-loop",
        expect=(1.0, 8),
        tolerance=HALF,
        cases=("train-step", "encode"),
        method="all texts in one pass, normalised",
        risks=(
            Risk(
                "Padding changes embeddings",
                probability="medium",
                impact="medium",
                symptom="a text's vector depends on its neighbours",
                mitigation="masked attention and mean",
                contingency="one text at a time",
                check="embeddings-apart",
            ),
        ),
    ),
    Phase(
        "checkpointing",
        {"checkpointing": True},
        part="tier-1",
        because=Idea("the document trains with it, so that 8 B parameters fit: it buys memory with time"),
        expect=(0.6, 0.95),
        keep=False,
        tolerance=HALF,
        cases=("micro-step",),
        method="layers computed again in the backward pass",
    ),
)

TRITON_TIER = (
    Phase(
        "batched-replies",
        {"batching": "micro"},
        part="tier-2",
        because="serial-loop",
        expect=(1.5, 4),
        documented=(2, 3),
        tolerance=HALF,
        cases=TRAIN,
        method="all replies of a micro-batch together",
        risks=(SAMPLED,),
    ),
    Phase(
        "window-batch",
        {"batching": "window"},
        part="tier-2",
        because="serial-loop",
        expect=(1.2, 2.2),
        tolerance=HALF,
        cases=TRAIN,
        method="all replies of the accumulation window together",
        risks=(SAMPLED,),
    ),
    Phase(
        "eager-window",
        {"batching": "window", "half": True, "sdpa": True},
        part="tier-2",
        because="serial-loop",
        onto="batched-encode",
        expect=(3, 14),
        tolerance=HALF,
        cases=("decode",),
        method="all replies together, bfloat16, cache that grows",
        risks=(SAMPLED,),
    ),
    Phase(
        "shared-cache",
        {"shared_cache": True},
        part="tier-2",
        because="excess-traffic",
        expect=(0.8, 1.5),
        tolerance=HALF,
        cases=DECODE,
        method="static caches, the prompt's kept once",
        risks=(SAMPLED,),
    ),
    Phase(
        "device-sampling",
        {"device_sampling": True},
        part="tier-2",
        because=Idea("a graph of a token, the next phase, can't wait for a host that picks it"),
        expect=(1.0, 1.3),
        needs=TRITON,
        tolerance=HALF,
        cases=("decode",),
        method="temperature and top-p in a Triton kernel, no wait a token",
        risks=(
            Risk(
                "The distribution is another",
                probability="medium",
                impact="high",
                symptom="frequencies off",
                mitigation="the same inverse distribution function as the reference",
                contingency="sort and pick",
                check="sampled-frequencies",
            ),
            RACE,
        ),
    ),
    Phase(
        "cuda-graph-decode",
        GRAPHED,
        part="tier-2",
        because="launch-gaps",
        expect=(2, 8),
        needs=TRITON,
        tolerance=HALF,
        cases=("decode", "replies"),
        method="one CUDA graph a token",
        risks=(SAMPLED,),
    ),
    Phase(
        "closed-form",
        {"diversity": "closed"},
        part="tier-2",
        because="serial-loop",
        expect=(2, 2000),
        cases=("diversity",),
        method="from the sum of the embeddings, no n x n matrix",
    ),
    Phase(
        "triton-diversity",
        {"diversity": "triton"},
        part="tier-2",
        because="excess-traffic",
        expect=(1.5, 12),
        documented=(2, 3),
        needs=TRITON,
        cases=("diversity",),
        method="one Triton pass: sum, score and marginals",
        risks=(
            Risk(
                "Off by more than atol 1e-4",
                probability="low",
                impact="medium",
                symptom="scores differ from PyTorch's",
                mitigation="float32 sums",
                contingency="closed form in PyTorch",
                check="pairs-agree",
            ),
            RACE,
        ),
    ),
)
