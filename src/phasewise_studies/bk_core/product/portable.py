"""The diagonal for files that travel: real arithmetic, fixed shapes and standard operators only.

The scan of ../scan.py with real and imaginary parts apart: torch.export, AOTInductor and ONNX all hold it.
"""

from __future__ import annotations

import torch
from torch import Tensor


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


def _scan(x: Tensor, k: Tensor, eta: float) -> tuple[Tensor, Tensor]:
    """The pivots from prefix products of [[alpha_i, -k_{i-1}], [1, 0]], by doubling.

    Each complex 2 x 2 matrix is the real 4 x 4 one of its blocks [[Re, -Im], [Im, Re]]: a level is one batched product.
    """
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    down, shift = torch.cat((zero[:, :1], -k), dim=1), zero - eta
    entries = (
        x, down, -shift, zero,
        one, zero, zero, zero,
        shift, zero, x, down,
        zero, zero, one, zero,
    )  # fmt: skip
    product = torch.stack(entries, dim=-1).unflatten(-1, (4, 4))
    reach, length = 1, x.shape[1]
    while reach < length:
        joined = product[:, reach:] @ product[:, : length - reach]
        joined = joined / joined.abs().amax(dim=(-2, -1), keepdim=True)
        product = torch.cat((product[:, :reach], joined), dim=1)
        reach *= 2
    n_re, d_re, n_im, d_im = product[..., 0].unbind(-1)
    size = d_re * d_re + d_im * d_im
    return (n_re * d_re + n_im * d_im) / size, (n_im * d_re - n_re * d_im) / size
