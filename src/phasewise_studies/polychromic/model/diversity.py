"""Semantic diversity of the replies to a prompt: D = 1 - mean of the cosines of all pairs of their embeddings.

For n unit vectors e_j with sum s:  D = 1 - (|s|^2 - sum_j |e_j|^2) / (n (n - 1)),  without any n x n matrix. Leaving reply j
out subtracts e_j from s, so all marginal contributions A_j = D - D_{-j} come from the same sums:
    |s - e_j|^2 = |s|^2 - 2 s.e_j + |e_j|^2.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pairwise_matrix(e: Tensor) -> Tensor:
    """1 - e_i.e_j of unit vectors (..., n, d) -> (..., n, n), through an n x n x d product, as the baseline does it."""
    return 1 - (e.unsqueeze(-2) * e.unsqueeze(-3)).sum(-1)


def diversity_broadcast(e_GND: Tensor) -> tuple[Tensor, Tensor]:
    """D (G,) and marginals A (G, n) from all pairs, without each reply in turn: one group after another, as in the original."""
    scores, marginals = [], []
    for e in e_GND:
        n = len(e)
        matrix = pairwise_matrix(e)
        above = torch.ones(n, n, dtype=torch.bool, device=e.device).triu(1)
        score = matrix[above].mean() if n > 1 else matrix.new_zeros(())
        rest = []
        for j in range(n):
            others = torch.arange(n, device=e.device) != j
            kept = above & others[:, None] & others[None, :]
            rest.append(matrix[kept].mean() if n > 2 else matrix.new_zeros(()))
        scores.append(score)
        marginals.append(score - torch.stack(rest))
    return torch.stack(scores), torch.stack(marginals)


def diversity_closed(e_GND: Tensor) -> tuple[Tensor, Tensor]:
    """D (G,) and marginals A (G, n) from the sum of each group."""
    n = e_GND.shape[1]
    if n < 2:
        return e_GND.new_zeros(len(e_GND)), e_GND.new_zeros(e_GND.shape[:2])
    total = e_GND.sum(1)
    square = total.square().sum(-1)
    own = e_GND.square().sum(-1)
    score = 1 - (square - own.sum(-1)) / (n * (n - 1))
    if n == 2:
        return score, score[:, None].expand(-1, 2).clone()
    with_total = (e_GND * total[:, None]).sum(-1)
    square_without = square[:, None] - 2 * with_total + own
    own_without = own.sum(-1, keepdim=True) - own
    without = 1 - (square_without - own_without) / ((n - 1) * (n - 2))
    return score, score[:, None] - without
