"""The BK core as a layer sees it: a (batch, length) -> Re G, Im G (batch, length, 2).

H = tridiag(1, a, 1) and z = i, as in the document.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.bk_core import reference as plain

# the document's shift z = E + i eta; its couplings are b = c = 1
Z = 1j


def features_loop(a: Tensor, causal: bool) -> Tensor:
    """The ratio recursion position by position, left to autograd: the baseline."""
    diagonal = plain.diagonal_causal if causal else plain.diagonal_ratio
    return torch.view_as_real(diagonal(a, *couplings_of(a), Z))


def couplings_of(a: Tensor) -> tuple[Tensor, Tensor]:
    """b and c (length - 1,), all 1."""
    ones = a.new_ones(max(a.shape[1] - 1, 0))
    return ones, ones
