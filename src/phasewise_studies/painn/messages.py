"""Messages in plain PyTorch: gather, multiply, add to the receiver's row; and the same backwards.

The list holds both directions of a pair, W(d) is the same in both and u changes its sign. So the adjoint's sum over the edges
that an atom *sends* along is a sum over its own row again:

    xbar_a  = sum_i W_ai * [qbar_i, -<u_ai, mubar_i>, <mubar_i, mu_a>]
    mubar_a += sum_i (W_mu x_a,mu) mubar_i
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from phasewise_studies.painn.adjoint import Multiply
from phasewise_studies.painn.layout import Sizes, Weights
from phasewise_studies.painn.reference import gaussian_grid


class PlainMessages:
    """Edges with filters W and their slopes dW/dd for all layers, (E, L * 3F) each."""

    def __init__(
        self, r: Tensor, i: Tensor, j: Tensor, weights: Weights, sizes: Sizes, multiply: Multiply = linear
    ) -> None:  # fmt: skip
        self.i, self.j, self.sizes = i, j, sizes
        self.d = torch.linalg.vector_norm(r, dim=1)
        self.u = r / self.d[:, None]
        self.w, self.slope = filters_and_slopes(self.d, weights, sizes, multiply)
        self.dbar = torch.zeros_like(self.d)
        self.ubar = torch.zeros_like(self.u)

    def send(self, layer: int, q: Tensor, mu: Tensor | None, x: Tensor) -> tuple[Tensor, Tensor]:
        """One message forward."""
        w_q, w_r, w_mu = self._parts(self.w, layer)
        x_q, x_r, x_mu = x.index_select(0, self.j).split(self.sizes.features, dim=1)
        vector = self.u[:, :, None] * (w_r * x_r)[:, None, :]
        if mu is None:
            return q.index_add(0, self.i, w_q * x_q), q.new_zeros(q.shape[0], 3, q.shape[1]).index_add(
                0, self.i, vector
            )
        vector = vector + mu.index_select(0, self.j) * (w_mu * x_mu)[:, None, :]
        return q.index_add(0, self.i, w_q * x_q), mu.index_add(0, self.i, vector)

    def pull(
        self, layer: int, qbar: Tensor, mubar: Tensor, mu: Tensor | None, x: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """The adjoint, by rows of the sender a: its edges a -> i read backwards, direction -u."""
        w_q, w_r, w_mu = self._parts(self.w, layer)
        s_q, s_r, s_mu = self._parts(self.slope, layer)
        x_q, x_r, x_mu = x.index_select(0, self.i).split(self.sizes.features, dim=1)
        qbar_i, mubar_i = qbar.index_select(0, self.j), mubar.index_select(0, self.j)
        n_r = -(self.u[:, :, None] * mubar_i).sum(1)
        self.dbar = self.dbar + (x_q * qbar_i * s_q + x_r * n_r * s_r).sum(1)
        self.ubar = self.ubar + (mubar_i * (w_r * x_r)[:, None, :]).sum(2)
        if mu is None:
            return None
        n_mu = (mubar_i * mu.index_select(0, self.i)).sum(1)
        self.dbar = self.dbar + (x_mu * n_mu * s_mu).sum(1)
        if layer == 0:
            return None
        xbar = x.new_zeros(x.shape).index_add(0, self.i, torch.cat((w_q * qbar_i, w_r * n_r, w_mu * n_mu), dim=1))
        return xbar, mubar.index_add(0, self.i, mubar_i * (w_mu * x_mu)[:, None, :])

    def pulls(self) -> Tensor:
        """dE/dr' of the edges read backwards, r' = R_a - R_i = -r: dbar u' + (ubar - <ubar, u'> u') / d with u' = -u."""
        along = (self.ubar * self.u).sum(1)
        return (self.ubar - along[:, None] * self.u) / self.d[:, None] - self.dbar[:, None] * self.u

    def _parts(self, values: Tensor, layer: int) -> tuple[Tensor, ...]:
        f = self.sizes.features
        return values[:, 3 * f * layer : 3 * f * (layer + 1)].split(f, dim=1)


def filters_and_slopes(d: Tensor, weights: Weights, sizes: Sizes, multiply: Multiply = linear) -> tuple[Tensor, Tensor]:
    """W = (phi Wf + bf) f and dW/dd = (phi' Wf) f + (phi Wf + bf) f', (E, L * 3F) each."""
    phi, dphi = radial_and_slope(d, sizes)
    f, df = cutoff_and_slope(d, sizes.cutoff)
    raw = multiply(phi, weights["filter.weight"]) + weights["filter.bias"]
    return raw * f[:, None], multiply(dphi, weights["filter.weight"]) * f[:, None] + raw * df[:, None]


def radial_and_slope(d: Tensor, sizes: Sizes) -> tuple[Tensor, Tensor]:
    """phi(d) and dphi/dd, (E, K)."""
    at = d[:, None]
    if sizes.basis == "gaussian":
        centres, width = gaussian_grid(sizes, d)
        t = (at - centres) / width
        phi = torch.exp(-0.5 * t * t)
        return phi, -phi * t / width
    w = torch.arange(1, sizes.radial + 1, dtype=d.dtype, device=d.device) * (torch.pi / sizes.cutoff)
    phi = torch.sin(w * at) / at
    return phi, (w * torch.cos(w * at) - phi) / at


def cutoff_and_slope(d: Tensor, cutoff: float) -> tuple[Tensor, Tensor]:
    """f(d) and df/dd, (E,)."""
    inside = d < cutoff
    angle = d * (torch.pi / cutoff)
    return 0.5 * (torch.cos(angle) + 1) * inside, -0.5 * (torch.pi / cutoff) * torch.sin(angle) * inside
