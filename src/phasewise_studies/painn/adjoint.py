"""Energy and forces without autograd: the forward pass, and the hand-derived adjoint that follows it back to the edges.

The derivation, equation by equation, is src/phasewise_studies/painn/notes/derivation.md. A bar marks dE/d(...): qbar = dE/dq.
What belongs to atoms is here; what belongs to edges is a `Messages`, of which there is a plain one (`messages.py`) and one of
Triton kernels (`kernels/fused_messages.py`). Nothing here asks for a gradient, so all of it can be compiled, exported and captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

from phasewise_studies.painn.layout import Sizes, Weights

# x (..., K), weight (N, K) -> x weight^T
Multiply = Callable[[Tensor, Tensor], Tensor]


class Messages(Protocol):
    """The edges of one batch: sends messages forward, and pulls gradients back through them."""

    def send(self, layer: int, q: Tensor, mu: Tensor | None, x: Tensor) -> tuple[Tensor, Tensor]:
        """q_i += sum_j W_q x_j and mu_i += sum_j (u W_R x_j + W_mu x_j mu_j); mu is None in a pruned first layer."""

    def pull(
        self, layer: int, qbar: Tensor, mubar: Tensor, mu: Tensor | None, x: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """xbar (A, 3F) and mubar (A, 3, F) from those of the message's results; None where nothing below needs them."""

    def pulls(self) -> Tensor:
        """dE/dr of each edge, (E, 3), once all layers were pulled back."""


@dataclass(frozen=True)
class UpdateKept:
    """What the adjoint of an update needs: its inputs' projections and the gates."""

    v: Tensor
    u: Tensor
    norm: Tensor
    z: Tensor
    b: Tensor | None
    c: Tensor
    s: Tensor


def energies_and_pulls(
    numbers: Tensor, messages: Messages, weights: Weights, sizes: Sizes, *, pruned: bool = False,
    multiply: Multiply = linear, forces: bool = True, atom: AtomParts | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Energy of each atom (A,), without reference energies, and dE/dr of each edge (E, 3).

    `pruned` leaves out what can't matter: in the first layer mu is 0 and x depends on the element alone (`species.x` and
    `species.q` are tables of it); of the last layer no mu is read. `atom` replaces the parts below, e.g. compiled ones.
    """
    part = atom or AtomParts()
    q = weights["embedding"].index_select(0, numbers)
    mu: Tensor | None = None if pruned else q.new_zeros(q.shape[0], 3, sizes.features)
    kept = []
    for layer in range(sizes.layers):
        if pruned and layer == 0:
            x, z = weights["species.x"].index_select(0, numbers), None
        else:
            x, z = part.context(q, weights, layer, multiply)
        before = mu
        q, mu = messages.send(layer, q, mu, x)
        last = pruned and layer == sizes.layers - 1
        q, mu, update = part.update(q, mu, weights, layer, sizes.epsilon, multiply, last)
        kept.append((before, x, z, update))
    energy, z = part.readout(q, weights, multiply)
    if not forces:
        return energy, None
    qbar = part.readout_adjoint(z, weights, multiply)
    mubar: Tensor | None = None
    for layer in reversed(range(sizes.layers)):
        before, x, z, update = kept[layer]
        qbar, mubar = part.update_adjoint(qbar, mubar, update, weights, layer, multiply)
        found = messages.pull(layer, qbar, mubar, before, x)
        if found is not None and layer > 0:
            xbar, mubar = found
            qbar = part.context_adjoint(qbar, xbar, z, weights, layer, multiply)
    return energy, messages.pulls()


def context(q: Tensor, weights: Weights, layer: int, multiply: Multiply) -> tuple[Tensor, Tensor]:
    """x = A2 silu(z) + a2 with z = A1 q + a1."""
    name = f"message.{layer}"
    z = multiply(q, weights[f"{name}.1.weight"]) + weights[f"{name}.1.bias"]
    return multiply(silu(z), weights[f"{name}.2.weight"]) + weights[f"{name}.2.bias"], z


def context_adjoint(qbar: Tensor, xbar: Tensor, z: Tensor, weights: Weights, layer: int, multiply: Multiply) -> Tensor:
    """qbar + A1^T (silu'(z) * A2^T xbar)."""
    name = f"message.{layer}"
    hidden = silu_slope(z) * multiply(xbar, weights[f"{name}.2.weight"].T)
    return qbar + multiply(hidden, weights[f"{name}.1.weight"].T)


def update(
    q: Tensor, mu: Tensor, weights: Weights, layer: int, epsilon: float, multiply: Multiply, last: bool
) -> tuple[Tensor, Tensor | None, UpdateKept]:
    """q += a + c s and mu += b U, with (V, U) = mu C, s = <V, U>, (a, b, c) = B2 silu(B1 [q, |V|] + b1) + b2.

    `last`: nothing reads mu any more, so b is not computed either.
    """
    name, f = f"update.{layer}", q.shape[1]
    v, u = multiply(mu, weights[f"{name}.mix.weight"]).split(f, dim=-1)
    norm = torch.sqrt((v * v).sum(1) + epsilon)
    z = multiply(torch.cat((q, norm), dim=1), weights[f"{name}.1.weight"]) + weights[f"{name}.1.bias"]
    s = (v * u).sum(1)
    hidden = silu(z)
    if last:
        a, c = (multiply(hidden, weights["update.last.weight"]) + weights["update.last.bias"]).split(f, dim=1)
        return q + a + c * s, None, UpdateKept(v, u, norm, z, None, c, s)
    gates = multiply(hidden, weights[f"{name}.2.weight"]) + weights[f"{name}.2.bias"]
    a, b, c = gates.split(f, dim=1)
    return q + a + c * s, mu + b[:, None, :] * u, UpdateKept(v, u, norm, z, b, c, s)


def update_adjoint(
    qbar: Tensor, mubar: Tensor | None, kept: UpdateKept, weights: Weights, layer: int, multiply: Multiply
) -> tuple[Tensor, Tensor]:
    """qbar and mubar before the update; mubar is None above the last layer, where nothing reads mu."""
    name, f = f"update.{layer}", qbar.shape[1]
    sbar = (qbar * kept.c)[:, None, :]
    ubar, vbar = sbar * kept.v, sbar * kept.u
    if kept.b is None:
        gates = multiply(torch.cat((qbar, qbar * kept.s), dim=1), weights["update.last.weight"].T)
    else:
        bbar = torch.zeros_like(qbar) if mubar is None else (mubar * kept.u).sum(1)
        gates = multiply(torch.cat((qbar, bbar, qbar * kept.s), dim=1), weights[f"{name}.2.weight"].T)
        if mubar is not None:
            ubar = ubar + mubar * kept.b[:, None, :]
    inner = multiply(silu_slope(kept.z) * gates, weights[f"{name}.1.weight"].T)
    vbar = vbar + (inner[:, f:] / kept.norm)[:, None, :] * kept.v
    below = multiply(torch.cat((vbar, ubar), dim=-1), weights[f"{name}.mix.weight"].T)
    return qbar + inner[:, :f], below if mubar is None else mubar + below


def readout(q: Tensor, weights: Weights, multiply: Multiply) -> tuple[Tensor, Tensor]:
    """e = w2 silu(z) + c2 with z = W1 q + c1."""
    z = multiply(q, weights["readout.1.weight"]) + weights["readout.1.bias"]
    # a single column: a sum, and no matrix product
    return (silu(z) * weights["readout.2.weight"]).sum(1) + weights["readout.2.bias"], z


def readout_adjoint(z: Tensor, weights: Weights, multiply: Multiply) -> Tensor:
    """qbar = W1^T (w2 * silu'(z))."""
    return multiply(silu_slope(z) * weights["readout.2.weight"], weights["readout.1.weight"].T)


def silu_slope(z: Tensor) -> Tensor:
    """d silu(z) / dz."""
    g = torch.sigmoid(z)
    return g * (1 + z * (1 - g))


@dataclass(frozen=True)
class AtomParts:
    """The dense parts, as functions that can be replaced by compiled ones."""

    context: Callable[..., tuple[Tensor, Tensor]] = context
    context_adjoint: Callable[..., Tensor] = context_adjoint
    update: Callable[..., tuple[Tensor, Tensor | None, UpdateKept]] = update
    update_adjoint: Callable[..., tuple[Tensor, Tensor]] = update_adjoint
    readout: Callable[..., tuple[Tensor, Tensor]] = readout
    readout_adjoint: Callable[..., Tensor] = readout_adjoint


def prune_weights(weights: Weights, sizes: Sizes) -> dict[str, Tensor]:
    """`weights` with the tables and cut layers of the pruned model.

    `species.x` (100, 3F) is x of the first layer by element; `update.last` holds the rows of a and c of the last gates.
    """
    f, name = sizes.features, f"update.{sizes.layers - 1}.2"
    x, _ = context(weights["embedding"], weights, 0, linear)
    rows = torch.cat((torch.arange(f), torch.arange(2 * f, 3 * f))).to(x.device)
    return {
        **weights,
        "species.x": x,
        "update.last.weight": weights[f"{name}.weight"][rows].contiguous(),
        "update.last.bias": weights[f"{name}.bias"][rows].contiguous(),
    }
