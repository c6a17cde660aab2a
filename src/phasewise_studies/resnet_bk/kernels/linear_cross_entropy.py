"""Mean cross-entropy with the head's product fused in, so that no logits are stored; `cross_entropy.loss_plain` is what it must equal.

With p = softmax(logits): dL/dx_t = (sum_v p_tv W_v - W_target) / T, which is attention with W as keys and as values, and
dL/dW_v = sum_t (p_tv - [target_t = v]) x_t / T, dL/db_v likewise with 1 in place of x_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from phasewise.kit.kernels import OLDEST, runs_kernels
from phasewise_studies.resnet_bk.cross_entropy import loss_plain

if TYPE_CHECKING:
    from phasewise_studies.resnet_bk.padding import PaddedClasses

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


# chosen from registers, shared memory and instruction counts of the sm_90 machine code (notes/kernels.md, "What was counted")
FORWARD = Tiles(128, 64, 8, 3)
BACKWARD = Tiles(64, 128, 8, 3)


def loss_fused(x: Tensor, head: torch.nn.Linear | PaddedClasses, targets: Tensor) -> Tensor:
    """As `loss_plain`, by `LinearCrossEntropy`; plain where there is no kernel. Autocast's precision is that of the products."""
    half = torch.is_autocast_enabled(x.device.type)
    dtype = torch.get_autocast_dtype(x.device.type) if half else x.dtype
    if not takes_width_and_dtype(x, dtype):
        return loss_plain(x, head, targets)
    # the kernels mask what the vocabulary lacks, so they take the unpadded weights
    return LinearCrossEntropy.apply(x, head.weight, head.bias, targets, dtype)


class LinearCrossEntropy(torch.autograd.Function):
    """x (tokens, width), weight (vocabulary, width), bias (vocabulary,), targets int64 -> the mean, float32.

    Products are of numbers rounded to `dtype`; sums and all gradients are float32. The forward pass already holds dL/dx: its
    running softmax is weighted with W as attention's is with its values. The backward pass multiplies the logits once more, for
    dL/dW and dL/db. No row of the vocabulary's size is ever stored.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.dtypes = x.dtype, weight.dtype, bias.dtype
        x, weight = (part.to(dtype).contiguous() for part in (x, weight))
        bias = bias.contiguous()
        losses, grad_x, lse = head_forward(x, weight, bias, targets)
        ctx.save_for_backward(x, weight, bias, targets, lse, grad_x)
        return losses.mean()

    @staticmethod
    def backward(ctx, grad: Tensor):
        x, weight, bias, targets, lse, grad_x = ctx.saved_tensors
        share = grad / x.shape[0]
        found = (grad_x * share, *head_backward(x, weight, bias, targets, lse, share))
        return (*(part.to(dtype) for part, dtype in zip(found, ctx.dtypes, strict=True)), None, None)


def takes_width_and_dtype(x: Tensor, dtype: torch.dtype) -> bool:
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
    import triton

    from phasewise_studies.resnet_bk.kernels import linear_cross_entropy_triton as source

    tokens, width = x.shape
    vocabulary = weight.shape[0]
    blocks = triton.cdiv(tokens, tiles.tokens)
    if splits == 0:
        splits = max(1, min(WAVES * _processors(x.device) // blocks, triton.cdiv(vocabulary, 8 * tiles.classes)))
    # whole tiles a program, and no program without any
    span = triton.cdiv(vocabulary, splits * tiles.classes) * tiles.classes
    splits = triton.cdiv(vocabulary, span)
    sums = torch.empty((2, splits, tokens), dtype=torch.float32, device=x.device)
    mixed = torch.empty((splits, tokens, width), dtype=torch.float32, device=x.device)
    source.head_forward_kernel[(blocks, splits)](
        sums, mixed, x, weight, bias, tokens, vocabulary, span,
        WIDTH=width, TOKENS=tiles.tokens, CLASSES=tiles.classes, EXACT=x.dtype is torch.float32,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    losses, lse = (torch.empty(tokens, dtype=torch.float32, device=x.device) for _ in range(2))
    grad_x = torch.empty((tokens, width), dtype=torch.float32, device=x.device)
    source.head_finish_kernel[(triton.cdiv(tokens, 32),)](
        losses, lse, grad_x, sums, mixed, x, weight, bias, targets, tokens, splits, WIDTH=width, TOKENS=32, num_warps=4
    )
    return losses, grad_x, lse


def head_backward(
    x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, lse: Tensor, share: Tensor, *, tiles: Tiles = BACKWARD
) -> tuple[Tensor, Tensor]:
    """dL/dW (vocabulary, width) and dL/db (vocabulary,), float32; share () is dL/d(sum of the losses)."""
    import triton

    from phasewise_studies.resnet_bk.kernels import linear_cross_entropy_triton as source

    tokens, width = x.shape
    vocabulary = weight.shape[0]
    grad_weight = torch.empty((vocabulary, width), dtype=torch.float32, device=x.device)
    grad_bias = torch.empty(vocabulary, dtype=torch.float32, device=x.device)
    source.head_backward_kernel[(triton.cdiv(vocabulary, tiles.classes),)](
        grad_weight, grad_bias, x, weight, bias, targets, lse, share, tokens, vocabulary,
        WIDTH=width, TOKENS=tiles.tokens, CLASSES=tiles.classes, EXACT=x.dtype is torch.float32,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
    return grad_weight, grad_bias


def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return UNKNOWN_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count
