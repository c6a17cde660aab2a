"""Chebyshev interpolation on [-1, 1]: linear maps from K nodes to values, integrals and wider grids.

A smooth function of c is known everywhere from few nodes; whatever is linear in it (values, arc lengths) is then one
matrix product. All matrices are float64 on the CPU and depend on no parameter.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def chebyshev_nodes(count: int) -> Tensor:
    """The zeros of T_count, from 1 down to -1 (exclusive)."""
    return torch.cos((torch.arange(count, dtype=torch.float64) + 0.5) * (math.pi / count))


def _features(c: Tensor, count: int) -> Tensor:
    """T_0(c) .. T_{count-1}(c) along a new last dimension; c is clamped to [-1, 1]."""
    angles = torch.arccos(c.double().clamp(-1, 1))
    return torch.cos(angles[..., None] * torch.arange(count, dtype=torch.float64))


def coefficient_map(count: int) -> Tensor:
    """(K, K): values at the nodes -> Chebyshev coefficients (the discrete cosine transform)."""
    angles = (torch.arange(count, dtype=torch.float64) + 0.5) * (math.pi / count)
    matrix = 2 / count * torch.cos(torch.arange(count, dtype=torch.float64)[:, None] * angles)
    matrix[0] /= 2
    return matrix


def value_map(c: Tensor, count: int) -> Tensor:
    """(..., K): values at the nodes -> values at the points c."""
    return _features(c, count) @ coefficient_map(count)


def integral_map(c: Tensor, count: int) -> Tensor:
    """(..., K): values at the nodes -> integrals from -1 to the points c.

    The integral of T_k is (T_{k+1}/(k+1) - T_{k-1}/(k-1))/2 for k > 1, T_2/4 for k = 1 and T_1 for k = 0.
    """

    def antiderivative(points: Tensor) -> Tensor:
        t = _features(points, count + 1)
        k = torch.arange(2, count, dtype=torch.float64)
        higher = (t[..., 3:] / (k + 1) - t[..., 1 : count - 1] / (k - 1)) / 2
        return torch.cat((t[..., 1:2], t[..., 2:3] / 4, higher), dim=-1)

    difference = antiderivative(c.double()) - antiderivative(torch.full_like(c, -1, dtype=torch.float64))
    return difference @ coefficient_map(count)


def tail(values: Tensor) -> float:
    """The largest of the last eighth of the coefficients over the largest of all, worst over leading dimensions (..., K)."""
    coefficients = (values.double().cpu() @ coefficient_map(values.shape[-1]).T).abs()
    last = coefficients[..., -max(values.shape[-1] // 8, 1) :].amax(-1)
    return float((last / coefficients.amax(-1)).max())
