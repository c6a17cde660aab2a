"""The head's kernels launched from tensors; `has_kernel` says where they run, `head.loss_plain` is what they must equal."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise.kit.kernels import OLDEST, runs_kernels

# a chunk of the vocabulary for each program where there are few tokens: as many programs as fit twice on the device
WAVES = 2
# multiprocessors of an unknown device: only for the interpreter, where speed does not matter
UNKNOWN_PROCESSORS = 4


@dataclass(frozen=True)
class Tiles:
    """Tokens and classes of one tile, and how a program runs it."""

    tokens: int
    classes: int
    warps: int
    stages: int


# chosen from registers, shared memory and instruction counts of the sm_90 machine code (README, "What was counted")
FORWARD = Tiles(128, 64, 8, 3)
BACKWARD = Tiles(64, 128, 8, 3)


def has_kernel(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether the fused loss runs for x (tokens, width) and products in `dtype`.

    It takes widths that are powers of two from 16 to 128, and a GPU of compute capability 7.5; bfloat16 needs 8.0.
    """
    width = x.shape[-1]
    if dtype is torch.float64 or width & (width - 1) or not 16 <= width <= 128:
        return False
    return runs_kernels(x.device, (8, 0) if dtype is torch.bfloat16 else OLDEST)


def head_forward(
    x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, *, tiles: Tiles = FORWARD, splits: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses (tokens,), T dL/dx (tokens, width) and the log2 of each row's sum (tokens,), all float32.

    `splits` programs share a block of tokens, each with a part of the vocabulary; 0 fills the device.
    """
    from phasewise_studies.resnet_bk import fused

    tokens, width = x.shape
    vocabulary = weight.shape[0]
    blocks = -(-tokens // tiles.tokens)
    if splits == 0:
        splits = max(1, min(WAVES * _processors(x.device) // blocks, -(-vocabulary // (8 * tiles.classes))))
    # whole tiles a program, and no program without any
    span = -(-vocabulary // (splits * tiles.classes)) * tiles.classes
    splits = -(-vocabulary // span)
    sums = torch.empty((2, splits, tokens), dtype=torch.float32, device=x.device)
    mixed = torch.empty((splits, tokens, width), dtype=torch.float32, device=x.device)
    fused.head_forward_kernel[(blocks, splits)](
        sums, mixed, x, weight, bias, tokens, vocabulary, span,
        WIDTH=width, TOKENS=tiles.tokens, CLASSES=tiles.classes, EXACT=x.dtype is torch.float32,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    losses, lse = (torch.empty(tokens, dtype=torch.float32, device=x.device) for _ in range(2))
    grad_x = torch.empty((tokens, width), dtype=torch.float32, device=x.device)
    fused.head_finish_kernel[(-(-tokens // 32),)](
        losses, lse, grad_x, sums, mixed, x, weight, bias, targets, tokens, splits, WIDTH=width, TOKENS=32, num_warps=4
    )
    return losses, grad_x, lse


def head_backward(
    x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, lse: Tensor, share: Tensor, *, tiles: Tiles = BACKWARD
) -> tuple[Tensor, Tensor]:
    """dL/dW (vocabulary, width) and dL/db (vocabulary,), float32; share () is dL/d(sum of the losses)."""
    from phasewise_studies.resnet_bk import fused

    tokens, width = x.shape
    vocabulary = weight.shape[0]
    grad_weight = torch.empty((vocabulary, width), dtype=torch.float32, device=x.device)
    grad_bias = torch.empty(vocabulary, dtype=torch.float32, device=x.device)
    fused.head_backward_kernel[(-(-vocabulary // tiles.classes),)](
        grad_weight, grad_bias, x, weight, bias, targets, lse, share, tokens, vocabulary,
        WIDTH=width, TOKENS=tiles.tokens, CLASSES=tiles.classes, EXACT=x.dtype is torch.float32,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    return grad_weight, grad_bias


def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return UNKNOWN_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count
