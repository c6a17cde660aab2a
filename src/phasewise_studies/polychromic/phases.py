"""Fine-tuning on a language model's own sampled replies: from one reply after another to a decode loop of our own."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise import Check, Target, Tolerance, Workload
from phasewise_studies.polychromic.cases import CASES
from phasewise_studies.polychromic.own_tier import OWN_KERNELS
from phasewise_studies.polychromic.story import CONSIDERED, PEERS, RISKS, TARGETS
from phasewise_studies.polychromic.tiers import LIBRARIES, TRITON_TIER


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change."""

    # set_pg, or faithful: diversity is a constant of the loss
    mode: str = "set_pg"
    # frozen weights and activations in bfloat16; adapters, norms and losses stay float32
    half: bool = False
    sdpa: bool = False
    # all texts in one pass of the encoder, and that as a CUDA graph
    encoder_batched: bool = False
    encoder_graph: bool = False
    # replies generated together: one, those of a micro-batch, or of the whole accumulation window
    batching: str = "one"
    # broadcast, closed, triton or cuda
    diversity: str = "broadcast"
    # and that as a CUDA graph for vectors that stay where they are
    diversity_graph: bool = False
    # static caches, a prompt's keys and values read by all its replies
    shared_cache: bool = False
    device_sampling: bool = False
    decode_graph: bool = False
    fused_decode: bool = False
    # one optimizer kernel over all adapters, and forward and backward as a CUDA graph
    flat_update: bool = False
    update_graph: bool = False
    # layers of few kernels, forward and backward
    fused_learning: bool = False
    checkpointing: bool = False


workload = Workload(
    summary="LoRA fine-tuning with sampled replies and a semantic diversity that trains",
    switches=Switches,
    program="phasewise_studies.polychromic.program",
    cases=CASES,
    parts={
        "tier-1": (
            Target("speedup", case="train-step", against="baseline", minimum=1.5, target=2, name="tier 1: libraries"),
        ),
        "tier-2": (
            Target("speedup", case="train-step", against="baseline", minimum=2, target=3, name="tier 2: Triton"),
        ),
        "tier-3": (
            Target(
                "speedup", case="train-step", against="baseline", minimum=3, target=4, name="tier 3: kernels of our own"
            ),
        ),
    },
    phases=(*LIBRARIES, *TRITON_TIER, *OWN_KERNELS),
    peers=PEERS,
    tiers={
        # probabilities and nats: sums of 50,000 float32 terms through 30 layers
        "strict": Tolerance(1e-5, 5e-5, times_baseline=64, unit="nats or probability"),
        "moderate": Tolerance(1e-4, 5e-4, times_baseline=1e3, unit="nats or probability"),
        "relaxed": Tolerance(2e-2, 1e-1, times_baseline=1e6, unit="nats or probability"),
    },
    checks=(
        Check("gradient-of-diversity", cases=("train-step",)),
        Check("sampled-frequencies", when="final", cases=("decode", "replies")),
        Check("as-the-library", when="final", cases=("decode", "replies")),
        Check("log-probabilities", when="kept", cases=("decode",)),
        Check("lora-gradients", when="final", cases=("train-step", "micro-step")),
        Check("diversity-trains", when="final", cases=("train-step",)),
        Check("pairs-agree", when="kept", cases=("diversity",)),
        Check("document-hours", when="final", cases=("window",)),
    ),
    targets=TARGETS,
    risks=RISKS,
    considered=CONSIDERED,
)
