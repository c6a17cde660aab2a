"""The numbers and names that phases.py is judged by: peers, targets, the document's risks, and what was weighed and left."""

from __future__ import annotations

from phasewise import Needs, Peer, Risk, Target

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
    Peer(
        "liger", package="liger-kernel", needs=Needs(cuda=True, modules=("liger_kernel", "transformers", "peft")), cases=("micro-step",),
        different="its adapters are PEFT's, drawn by PEFT",
    ),
    Peer(
        "unsloth", package="unsloth", needs=Needs(cuda=True, modules=("unsloth",)), cases=("micro-step",),
        different="its adapters are its own, drawn by itself",
    ),
)  # fmt: skip

TARGETS = (
    Target("time_s", case="replies", minimum=60e-3, target=20e-3, name="12 replies x 100 tokens"),
    Target("time_s", case="replies-24", minimum=60e-3, target=20e-3, name="24 replies x 64 tokens"),
    Target("speedup", case="replies", against="baseline", minimum=300, target=1000, name="over twelve replies one by one"),
    Target("speedup", case="replies", against="generate-static-compiled", minimum=3, target=8, name="over transformers' best"),
    Target("time_s", case="encode", minimum=0.6e-3, target=0.2e-3, name="encoder on 12 replies"),
    Target("time_s", case="diversity", minimum=29e-6, target=26e-6, name="diversity, 4096 x 16 x 384"),
    Target("time_s", case="micro-step", minimum=12e-3, target=5e-3, name="LoRA micro-step 2 x 512"),
    Target("time_s", case="window", minimum=0.25, target=0.12, name="optimizer step, 16 examples, 48 replies x 100"),
    Target("speedup", case="train-step", against="baseline", minimum=20, target=100, name="over one reply after another"),
    Target("speedup", case="train-step", against="baseline", minimum=1.5, target=4, stretch=20, name="the document's 12 h to 6-8, 4-6, 3-4 h"),
)  # fmt: skip

RISKS = (
    Risk("Developing CUDA takes months", probability="high", impact="medium", symptom="tier 3 is not begun",
         mitigation="libraries first, then Triton, raw CUDA last and for one kernel",
         contingency="the tiers below stand alone", by_hand="a matter of people's time"),
    Risk("Kernels fail on other GPUs", probability="medium", impact="medium", symptom="a phase falls back",
         mitigation="every kernel has a plain form; all are compiled for capability 7.5, 8.0 and 9.0 in the tests",
         contingency="the plain form, with the reason in the record", by_hand="the records of each machine say what fell back"),
    Risk("Subtle bugs in kernels", probability="medium", impact="high", symptom="wrong at odd sizes",
         mitigation="atol 1e-4 against PyTorch; one reply, a batch, then training", contingency="the plain form",
         check="bitwise-repeatable"),
    Risk("Kernels need upkeep", probability="medium", impact="medium", symptom="a new Triton does not compile them",
         mitigation="compiled offline by two Triton versions in the tests; only true bottlenecks have kernels",
         contingency="the plain form", by_hand="continuous integration"),
)  # fmt: skip

CONSIDERED = {
    "Qwen3-8B in NF4": "bitsandbytes is 43 MB and the model 16 GB, neither to be had offline; a decode step of 8 B bfloat16 weights "
    "has a floor of 3.8 ms, so 55,600 steps take 3.6 min instead of the document's 8.4 h [estimate]",
    "flash-attn package": "torch's SDPA brings FlashAttention 2 and cuDNN's; the wheel builds for an hour",
    "vLLM": "a wheel of over 64 MiB that brings its own torch; generate_batch of transformers is the paged peer",
    "dropout in the adapters": "the timed cases take 0: masks of 2 x 512 x 30 x 7 inputs would be most of the canonical batch; "
    "the command line has --dropout",
    "n x n distances": "only their mean is used, and that needs the sum of the vectors alone: 100 MB read once instead of 4 MB more written",
    "replies while learning": "the next window's replies could be drawn on a second stream from adapters one step old; that is another algorithm",
    "speculative decoding": "48 replies already share each weight that is read; it pays at one reply",
}
