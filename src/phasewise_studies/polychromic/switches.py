"""What a phase may change, and the values that several phases share."""

from __future__ import annotations

from dataclasses import dataclass


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


# all of it, since in `replies` and `replies-24` it is the first form that decodes fast enough, and stands on nothing
GRAPHED = {
    "half": True, "sdpa": True, "batching": "window", "shared_cache": True, "device_sampling": True, "decode_graph": True,
}  # fmt: skip
EVERYTHING = GRAPHED | {
    "encoder_batched": True, "encoder_graph": True, "diversity": "triton", "fused_decode": True, "flat_update": True,
    "update_graph": True, "fused_learning": True,
}  # fmt: skip
