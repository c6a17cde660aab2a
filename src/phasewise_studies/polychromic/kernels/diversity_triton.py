"""Diversity in one pass over memory: the sum of a group's vectors, its score and all marginals while they are in registers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from phasewise_studies.polychromic.kernels.launching import has_half_kernel
from phasewise_studies.polychromic.model.diversity import diversity_closed

# vectors of a group that fit into the registers of one program, with room to spare
MOST_ELEMENTS = 32_768
# and of one warp: no sum waits for another one, 26.6 us for 4096 x 16 x 384 on an H200 and 30.7 with four
WARP_ELEMENTS = 8_192


@triton.jit
def diversity_kernel(
    score, marginals, e, n, width, NEEDS_REST: tl.constexpr, REPLIES: tl.constexpr, WIDTH: tl.constexpr
):
    """One program a group of n unit vectors of `width` features: D and A_j, as diversity.py has them."""
    group = tl.program_id(0).to(tl.int64)
    # N = REPLIES of the group, D = WIDTH features of a vector
    j, d = tl.arange(0, REPLIES), tl.arange(0, WIDTH)
    inside = (j < n)[:, None] & (d < width)[None, :]
    e_ND = tl.load(e + (group * n + j[:, None]) * width + d[None, :], mask=inside, other=0.0).to(tl.float32)
    total_D = tl.sum(e_ND, axis=0)
    square = tl.sum(total_D * total_D, axis=0)
    own_N = tl.sum(e_ND * e_ND, axis=1)
    own = tl.sum(own_N, axis=0)
    # a size of 1 is a constant of the kernel, which a sum with a number of the program is not
    count = n + group * 0
    pairs = tl.maximum(count * (count - 1), 1).to(tl.float32)
    # one text alone has no diversity
    found = tl.where(count > 1, 1.0 - (square - own) / pairs, 0.0)
    tl.store(score + group, found)
    without_N = own_N * 0.0
    if NEEDS_REST:
        # |s - e_j|^2 = |s|^2 - 2 s.e_j + |e_j|^2
        rest_N = square - 2.0 * tl.sum(e_ND * total_D[None, :], axis=1) + own_N
        without_N = 1.0 - (rest_N - (own - own_N)) / ((count - 1) * (count - 2)).to(tl.float32)
    tl.store(marginals + group * n + j, found - without_N, mask=j < n)


def diversity_triton(e_GND: Tensor) -> tuple[Tensor, Tensor]:
    """D (G,) and marginals A (G, n) in float32; in PyTorch on other devices, in float64, and for groups too large for registers."""
    _, n, width = e_GND.shape
    size = triton.next_power_of_2(n) * triton.next_power_of_2(width)
    if not has_half_kernel(e_GND.device, e_GND.dtype) or size > MOST_ELEMENTS:
        return diversity_closed(e_GND)
    return launch_diversity(e_GND)


def launch_diversity(e_GND: Tensor) -> tuple[Tensor, Tensor]:
    """One launch, with no more warps a group than its vectors need."""
    groups, n, width = e_GND.shape
    score = torch.empty(groups, device=e_GND.device)
    marginals = torch.empty(groups, n, device=e_GND.device)
    if groups and n:
        replies, features = triton.next_power_of_2(n), triton.next_power_of_2(width)
        diversity_kernel[(groups,)](
            score, marginals, e_GND.contiguous(), n, width, NEEDS_REST=n > 2, REPLIES=replies, WIDTH=features,
            num_warps=max(replies * features // WARP_ELEMENTS, 1),
        )  # fmt: skip
    return score, marginals
