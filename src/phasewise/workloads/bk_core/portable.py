"""The diagonal for files that travel: real arithmetic, fixed shapes and standard operators only.

The scan of scan.py with real and imaginary parts apart: torch.export, AOTInductor and ONNX all hold it.
"""

from __future__ import annotations

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]


class PortableDiagonal(torch.nn.Module):
    """a (batch, length), b and c -> real (batch, length, 2), for one z; `causal` gives 1/d_i."""

    def __init__(self, z: complex, *, causal: bool = False) -> None:
        super().__init__()
        self.z, self.causal = z, causal

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Real and imaginary part of the diagonal."""
        x, k = a - self.z.real, (b * c).expand(a.shape[0], a.shape[1] - 1)
        pivot_re, pivot_im = _scan(x, k, self.z.imag)
        if not self.causal:
            re, im = (part.flip(1) for part in _scan(x.flip(1), k.flip(1), self.z.imag))
            # d + e - alpha
            pivot_re, pivot_im = pivot_re + re - x, pivot_im + im + self.z.imag
        size = pivot_re * pivot_re + pivot_im * pivot_im
        return torch.stack((pivot_re / size, -pivot_im / size), dim=-1)


def _scan(x: Tensor, k: Tensor, eta: float) -> Pair:
    """The pivots from prefix products of [[alpha_i, -k_{i-1}], [1, 0]], by doubling."""
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    # p00 p01 p10 p11
    product = ((x, zero - eta), (torch.cat((zero[:, :1], -k), dim=1), zero), (one, zero), (zero, zero))
    reach, length = 1, x.shape[1]
    while reach < length:
        later = tuple((re[:, reach:], im[:, reach:]) for re, im in product)
        earlier = tuple((re[:, : length - reach], im[:, : length - reach]) for re, im in product)
        joined = _multiply(later, earlier)
        scale = 1 / torch.maximum(joined[0][0].abs(), joined[0][1].abs())
        product = tuple(
            (torch.cat((re[:, :reach], new_re * scale), dim=1), torch.cat((im[:, :reach], new_im * scale), dim=1))
            for (re, im), (new_re, new_im) in zip(product, joined, strict=True)
        )
        reach *= 2
    (n_re, n_im), (d_re, d_im) = product[0], product[2]
    size = d_re * d_re + d_im * d_im
    return (n_re * d_re + n_im * d_im) / size, (n_im * d_re - n_re * d_im) / size


def _multiply(p: tuple[Pair, ...], q: tuple[Pair, ...]) -> tuple[Pair, ...]:
    return (
        _add(_times(p[0], q[0]), _times(p[1], q[2])), _add(_times(p[0], q[1]), _times(p[1], q[3])),
        _add(_times(p[2], q[0]), _times(p[3], q[2])), _add(_times(p[2], q[1]), _times(p[3], q[3])),
    )  # fmt: skip


def _times(u: Pair, v: Pair) -> Pair:
    return u[0] * v[0] - u[1] * v[1], u[0] * v[1] + u[1] * v[0]


def _add(u: Pair, v: Pair) -> Pair:
    return u[0] + v[0], u[1] + v[1]
