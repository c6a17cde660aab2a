"""Retrieval of one step in PyTorch: cost, softmax, mix - as the user had it, as a matrix product, compiled, or of filled rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from phasewise_studies.lior.window import BETA, EPS


def measure_cost(query: Tensor, coords: Tensor, valid: Tensor, metric: Tensor, curvature: Tensor) -> Tensor:
    """R sqrt(sum_i g_i (C_j - q_b)_i^2 + eps), inf where a row is invalid: rotated (B, n) and (K, n) -> (B, K).

    The differences are taken directly: |C|^2 - 2 C q + |q|^2 is off by 5e-6 in float32, which a root near a match makes 2e-3.
    """
    difference = coords[None, :, :] - query[:, None, :]
    cost = curvature * torch.sqrt((difference.square() * metric).sum(-1) + EPS)
    return cost.masked_fill(~valid, torch.inf)


def weigh(cost: Tensor) -> Tensor:
    """softmax(-beta cost) over the rows."""
    return torch.softmax(-BETA * cost, dim=-1)


def mix_candidates(weights: Tensor, states: Tensor) -> Tensor:
    """Sum of weighted candidates, of which each token has a copy of its own: (B, K, d) is written and read."""
    candidates = states[None].expand(weights.shape[0], -1, -1).contiguous()
    return torch.sum(candidates * weights.unsqueeze(-1), dim=1)


def mix_rows(weights: Tensor, states: Tensor) -> Tensor:
    """The same sum as a matrix product: the bank is shared by all tokens."""
    return weights @ states


def weigh_and_mix(cost: Tensor, states: Tensor) -> Tensor:
    """Both in one function, for the compiler: the copies of the candidates are never written."""
    return torch.sum(states[None] * weigh(cost).unsqueeze(-1), dim=1)


@cache
def compile_weigh_and_mix() -> Callable[[Tensor, Tensor], Tensor]:
    """`weigh_and_mix`, compiled once a process."""
    compiled: Callable[[Tensor, Tensor], Tensor] = torch.compile(weigh_and_mix, fullgraph=True, dynamic=False)
    return compiled


def choose_mix(kind: str) -> Callable[[Tensor, Tensor], Tensor]:
    """(cost, states) -> (B, d): `candidates`, `product` or `compiled`."""
    if kind == "compiled":
        return compile_weigh_and_mix()
    mix = {"candidates": mix_candidates, "product": mix_rows}[kind]
    return lambda cost, states: mix(weigh(cost), states)


def keep_filled(coords: Tensor, states: Tensor, valid: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Only the valid rows: their number is read from the device, so a CUDA graph can't hold this."""
    rows = valid.nonzero().flatten()
    return coords[rows], states[rows], torch.ones_like(rows, dtype=torch.bool)


def mix_in(kind: str, weights: Tensor, states: Tensor) -> Tensor:
    """weights @ states in float32, or on tensor cores: `float16`, `bfloat16`, or `split`.

    `split` writes each number as the sum of two float16 (22 bits together) and adds the three products that matter, as
    one product of three times the length: the dropped fourth is 2^-22 of the result.
    """
    if kind == "float32":
        return weights @ states
    if kind == "split":
        high, low = split_half(weights)
        # the lower half of weights far under one would vanish in float16: their error is bounded by 2^-24 each
        upper, lower = split_half(states)
        left = torch.cat((high, low, high), dim=1)
        right = torch.cat((upper, upper, lower), dim=0)
        return multiply_half(left, right)
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}[kind]
    return multiply_half(weights.to(dtype), states.to(dtype))


def split_half(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """A float32 tensor as two float16 ones whose sum it is.

    The upper half is rounded in its bits: torch.compile drops a cast to float16 and back, which would leave no lower half.
    """
    bits = tensor.float().view(torch.int32)
    # float16 keeps 10 of the 23 bits of a float32's fraction
    high = ((bits + (1 << 12)) & -(1 << 13)).view(torch.float32)
    return high.to(torch.float16), (tensor - high).to(torch.float16)


def multiply_half(left: Tensor, right: Tensor) -> Tensor:
    """Product of half-precision matrices, accumulated and returned in float32."""
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()
