"""Four small networks of which the router picks one a token, as they are documented and as one wide network.

Hidden units are numbered expert by expert: unit e * hidden + j is unit j of expert e. The router's choice is an argmax
without a gate factor, so the router gets no gradient (the document's routing, kept).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

EXPERTS = 4
# the document's dropout, on the hidden units
DROPOUT = 0.1
KEPT = 1 - DROPOUT


def route(x: Tensor, router: Tensor, bias: Tensor) -> Tensor:
    """Number of each token's expert, int64 (tokens,), in the parameters' own precision.

    A score that is rounded to half precision would send tokens to other experts than float32 does.
    """
    with torch.autocast(x.device.type, enabled=False):
        return functional.linear(x.to(router.dtype), router, bias).argmax(-1)


def run_loop(x: Tensor, choice: Tensor, keep: Tensor | None, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """As documented: expert after expert on the tokens that chose it, found with a mask (the host waits for each count).

    x (tokens, width), keep (tokens, hidden) of 0 and 1 or None, w1 (experts hidden, width), b1 (experts hidden,),
    w2 (width, experts hidden), b2 (experts, width) -> (tokens, width).
    """
    hidden = w1.shape[0] // EXPERTS
    out = torch.zeros_like(x)
    for expert in range(EXPERTS):
        units = slice(expert * hidden, (expert + 1) * hidden)
        chosen = choice == expert
        inner = functional.linear(x[chosen], w1[units], b1[units]).relu()
        if keep is not None:
            inner = inner * keep[chosen] / KEPT
        out[chosen] = functional.linear(inner, w2[:, units], b2[expert]).to(out.dtype)
    return out


def run_wide(x: Tensor, choice: Tensor, keep: Tensor | None, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """All experts as one network whose hidden units count only where their expert was chosen: no shape depends on a value.

    Four times the multiplications of the chosen experts alone, which is 12 % of the head's at the documented size.
    """
    tokens, hidden = x.shape[0], w1.shape[0] // EXPERTS
    picked = choice[:, None] == torch.arange(EXPERTS, device=x.device)
    inner = functional.linear(x, w1, b1).relu()
    gate = picked[:, :, None]
    if keep is not None:
        gate = gate & keep[:, None, :].bool()
    # the gate is 0 or 1 in any precision; 1/0.9 would be rounded by half precision, always to the same side
    inner = (inner.view(tokens, EXPERTS, hidden) * gate).view(tokens, EXPERTS * hidden)
    if keep is not None:
        inner = inner / KEPT
    return functional.linear(inner, w2) + functional.linear(picked.to(b2.dtype), b2.t())
