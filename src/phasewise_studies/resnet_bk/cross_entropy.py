"""Mean cross-entropy over a large vocabulary, through its logits.

logits_tv = x_t . W_v + b_v          loss = mean over t of  logsumexp_v logits_tv - logits_{t, target_t}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

if TYPE_CHECKING:
    from phasewise_studies.resnet_bk.padding import PaddedClasses

# 33 MB in float32: stays in a 50 MB cache from the softmax to the gradient
CHUNK_LOGITS = 1 << 23


def loss_plain(x: Tensor, head: torch.nn.Linear | PaddedClasses, targets: Tensor) -> Tensor:
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
