"""Mean cross-entropy over a large vocabulary: plain, and with the head's product fused in, so that no logits are stored.

    logits_tv = x_t . W_v + b_v          loss = mean over t of  logsumexp_v logits_tv - logits_{t, target_t}

With p = softmax(logits): dL/dx_t = (sum_v p_tv W_v - W_target) / T, which is attention with W as keys and as values, and
dL/dW_v = sum_t (p_tv - [target_t = v]) x_t / T, dL/db_v likewise with 1 in place of x_t.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from phasewise.kit.padding import PaddedClasses
from phasewise_studies.resnet_bk import kernels

Head = torch.nn.Linear | PaddedClasses
# 33 MB in float32: stays in a 50 MB cache from the softmax to the gradient
CHUNK_LOGITS = 1 << 23


def loss_plain(x: Tensor, head: Head, targets: Tensor) -> Tensor:
    """Through all logits (tokens, vocabulary): the product, a softmax over each row, and the gradient of the same size."""
    logits = head(x)
    if logits.dtype in (torch.bfloat16, torch.float16):
        return HalfCrossEntropy.apply(logits, targets)
    return functional.cross_entropy(logits, targets)


class HalfCrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of logits (tokens, vocabulary) in half precision, softmax in float32, some rows at a time.

    Autocast would copy all logits to float32 and keep three matrices of that size. Here the gradient takes the logits' own
    place, chunk by chunk while it is in the cache: memory for one matrix, in half precision. Differentiable once.
    """

    @staticmethod
    def forward(ctx, logits: Tensor, targets: Tensor) -> Tensor:
        losses = []
        rows = max(1, CHUNK_LOGITS // logits.shape[1])
        for part, wanted in zip(logits.split(rows), targets.split(rows), strict=True):
            # float16 is read and single precision written in one pass, bfloat16 is converted in one of its own; autocast would
            # convert and keep both
            with torch.autocast(part.device.type, enabled=False):
                log_p = torch.log_softmax(part, dim=1, dtype=torch.float32)
            at = wanted[:, None]
            losses.append(-log_p.gather(1, at))
            # dL/dlogits is p - [v is the target]
            gradient = log_p.exp_()
            gradient.scatter_add_(1, at, gradient.new_full((), -1.0).expand(at.shape))
            part.copy_(gradient)
        ctx.gradient = logits
        return torch.cat(losses).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        gradient = ctx.gradient
        del ctx.gradient
        return gradient.mul_(grad / len(gradient)), None


def loss_fused(x: Tensor, head: Head, targets: Tensor) -> Tensor:
    """The same by `LinearCrossEntropy`; plain where there is no kernel. Autocast's precision is that of the products."""
    half = torch.is_autocast_enabled(x.device.type)
    dtype = torch.get_autocast_dtype(x.device.type) if half else x.dtype
    if not kernels.has_kernel(x, dtype):
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
        losses, grad_x, lse = kernels.head_forward(x, weight, bias, targets)
        ctx.save_for_backward(x, weight, bias, targets, lse, grad_x)
        return losses.mean()

    @staticmethod
    def backward(ctx, grad: Tensor):
        x, weight, bias, targets, lse, grad_x = ctx.saved_tensors
        share = grad / x.shape[0]
        found = (grad_x * share, *kernels.head_backward(x, weight, bias, targets, lse, share))
        return (*(part.to(dtype) for part, dtype in zip(found, ctx.dtypes, strict=True)), None, None)
