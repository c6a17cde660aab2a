"""Frozen weights joined with their adapters: two products for a group of projections, forward as well as backward.

A group reads one input x (N, in): queries, keys and values; gates and ups. Its adapters A lie below each other, its B on the
diagonal of one matrix, so that with r = rank x projections

    J = [ W  sB ]      t  = x A^T       y  = [x  t ] [W  sB]^T
        [ A   0 ]      dt = dy sB       dx = [dy dt] [W; A]        dA = dt^T x,   dB = s dy^T t

and all four are products with a part of J. What dA and dB need is kept for all layers, so that each is one batched product a
group at the end of the backward pass. Adapters are rounded to the dtype of W once a pass, into J: 5 M of them for SmolLM2-135M,
30 MB read and written, 14 launches.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.polychromic.model.lora import GROUPS, Lora, projection_sizes, stack_pair
from phasewise_studies.polychromic.model.weights import Weights


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """One projection in its group, all layers: views of A, B and their gradients, and where they stand."""

    a_LRK: Tensor
    b_LOR: Tensor
    grad_a_LRK: Tensor
    grad_b_LOR: Tensor
    rows: slice
    ranks: slice


@dataclass(frozen=True, kw_only=True)
class Group:
    """J of one group for all layers, (L, out + r, in + r)."""

    joined_LOK: Tensor
    out: int
    into: int
    scale: float
    adapters: tuple[Adapter, ...]

    @property
    def ranks(self) -> int:
        return self.joined_LOK.shape[1] - self.out

    def refresh(self) -> None:
        """Take over the adapters as they are now."""
        a_LRK, b_LOR = self.joined_LOK[:, self.out :, : self.into], self.joined_LOK[:, : self.out, self.into :]
        for one in self.adapters:
            a_LRK[:, one.ranks].copy_(one.a_LRK)
            torch.mul(one.b_LOR, self.scale, out=b_LOR[:, one.rows, one.ranks])

    def project(self, layer: int, x_NK: Tensor) -> Tensor:
        """y (N, out) of x, which stands in x_NK (N, in + r); t is written beside it."""
        joined, into = self.joined_LOK[layer], self.into
        torch.mm(x_NK[:, :into], joined[self.out :, :into].T, out=x_NK[:, into:])
        return torch.mm(x_NK, joined[: self.out].T)

    def project_back(self, layer: int, dy_NO: Tensor) -> Tensor:
        """dx (N, in) of dy, which stands in dy_NO (N, out + r); dt is written beside it."""
        joined, out = self.joined_LOK[layer], self.out
        torch.mm(dy_NO[:, :out], joined[:out, self.into :], out=dy_NO[:, out:])
        return torch.mm(dy_NO, joined[:, : self.into])

    def accumulate(self, x_LNK: Tensor, dy_LNO: Tensor) -> None:
        """Add dA and dB of all layers to the gradients of the adapters."""
        x, t = x_LNK.split((self.into, self.ranks), dim=2)
        dy, dt = dy_LNO.split((self.out, self.ranks), dim=2)
        grad_a, grad_b = _multiply_wide(dt.mT, x), _multiply_wide(dy.mT, t)
        for one in self.adapters:
            one.grad_a_LRK.add_(grad_a[:, one.ranks])
            # off the diagonal are products of one projection's gradient with another's adapter
            one.grad_b_LOR.add_(grad_b[:, one.rows, one.ranks], alpha=self.scale)


def _multiply_wide(a: Tensor, b: Tensor) -> Tensor:
    """Batched product, whose sums over thousands of tokens stay in float32 where the device can."""
    if a.is_cuda and a.dtype in (torch.bfloat16, torch.float16):
        return torch.bmm(a, b, out_dtype=torch.float32)
    return torch.bmm(a, b)


@torch.no_grad()
def join(weights: Weights, lora: Lora) -> dict[str, Group]:
    """A copy of the projections with room for the adapters, by the packed name of the weights."""
    return {name: _make_group(getattr(weights, name), lora, projections) for name, projections in GROUPS.items()}


def _make_group(weight_LOK: Tensor, lora: Lora, projections: tuple[str, ...]) -> Group:
    layers, out, into = weight_LOK.shape
    ranks = lora.rank * len(projections)
    joined = weight_LOK.new_zeros(layers, out + ranks, into + ranks)
    joined[:, :out, :into] = weight_LOK
    adapters, row = [], 0
    for index, projection in enumerate(projections):
        size = projection_sizes(lora.shape)[projection][0]
        a, b = stack_pair(lora, lora.flat, projection)
        grad_a, grad_b = stack_pair(lora, lora.gradient, projection)
        rows, columns = slice(row, row + size), slice(index * lora.rank, (index + 1) * lora.rank)
        adapters.append(Adapter(a_LRK=a, b_LOR=b, grad_a_LRK=grad_a, grad_b_LOR=grad_b, rows=rows, ranks=columns))
        row += size
    return Group(joined_LOK=joined, out=out, into=into, scale=lora.scale, adapters=tuple(adapters))
