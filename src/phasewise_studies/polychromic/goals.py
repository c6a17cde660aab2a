"""What the phases are judged by: targets, tolerances and checks, the document's risks, and what was weighed and left."""

from __future__ import annotations

from phasewise import Check, Risk, Target, Tolerance

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
)  # fmt: skip
# the document's 12 h to 6-8, 4-6, 3-4 h are of Qwen3-8B: no target until the case window-8b, of its shape, is on record

# each of the document's tiers by itself
PARTS = {
    "tier-1": (
        Target("speedup", case="train-step", against="baseline", minimum=1.5, target=2, name="tier 1: libraries"),
    ),
    "tier-2": (Target("speedup", case="train-step", against="baseline", minimum=2, target=3, name="tier 2: Triton"),),
    "tier-3": (
        Target(
            "speedup", case="train-step", against="baseline", minimum=3, target=4, name="tier 3: kernels of our own"
        ),
    ),
}

SUMS = "sums of 50,000 float32 terms through 30 layers"
TIERS = {
    "strict": Tolerance(1e-5, 5e-5, times_baseline=64, unit="nats or probability", why=SUMS),
    "moderate": Tolerance(1e-4, 5e-4, times_baseline=1e3, unit="nats or probability", why=SUMS),
    "relaxed": Tolerance(
        2e-2, 1e-1, times_baseline=1e6, unit="nats or probability", why="bfloat16 activations through 30 layers"
    ),
}

CHECKS = (
    Check("gradient-of-diversity", cases=("train-step",)),
    Check("sampled-frequencies", when="final", cases=("decode", "replies")),
    Check("as-the-library", when="final", cases=("decode", "replies")),
    Check("log-probabilities", when="kept", cases=("decode",)),
    Check("lora-gradients", when="final", cases=("train-step", "micro-step")),
    Check("diversity-trains", when="final", cases=("train-step",)),
    Check("pairs-agree", when="kept", cases=("diversity",)),
    Check("document-hours", when="final", cases=("window-8b",)),
)

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
    "dropout in the adapters": "the timed cases take 0: masks of 2 x 512 x 30 x 7 inputs would be most of the canonical batch; "
    "the fused layers multiply x once for weight and adapter, and a dropped x is another x; the command line's default is 0, and with "
    "--dropout above 0 the plain layers learn",
    "n x n distances": "only their mean is used, and that needs the sum of the vectors alone: 100 MB read once instead of 4 MB more written",
    "replies while learning": "the next window's replies could be drawn on a second stream from adapters one step old; that is another algorithm",
    "speculative decoding": "48 replies already share each weight that is read; it pays at one reply",
}

# of other packages
UNMEASURED = {
    "vLLM": "does not fit beside this torch: it brings its own; generate_batch of transformers is the paged peer",
}
