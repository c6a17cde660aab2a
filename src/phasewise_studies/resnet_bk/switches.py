"""What a phase may change. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


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
