"""The dense parts of the model by Triton kernels: the interface of `adjoint.AtomParts`, three products where a layer has three.

Bias, silu, norm, gates and residuals ride on the tiles of the products; kernels and counts are in `dense.py`, `update.py` and
`update_adjoint.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from phasewise_studies.painn.adjoint import AtomParts
from phasewise_studies.painn.kernels.dense import Precision, TileLaunch, linear, split
from phasewise_studies.painn.kernels.readout import read_out
from phasewise_studies.painn.kernels.update import gate, mix
from phasewise_studies.painn.kernels.update_adjoint import ungate, unmix
from phasewise_studies.painn.layout import Weights


@dataclass(frozen=True)
class Kept:
    """What the adjoint of an update needs."""

    vu: Tensor
    dot: Tensor
    norm: Tensor
    z: Tensor
    gates: Tensor


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """How atoms are cut into tiles, for each kernel; None: by their number."""

    # dense layers, and their adjoints
    forth: TileLaunch | None = None
    back: TileLaunch | None = None
    mix: TileLaunch | None = None
    gate: TileLaunch | None = None
    ungate: TileLaunch | None = None
    unmix: TileLaunch | None = None


# how the kernels multiply: as `dense.linear` says, or with weights split beforehand
Products = Precision | Literal["split"]
# beside the name of a weight: split for products with it, and with it transposed
FORTH, BACK = "split", "split_back"


def split_weights(weights: Weights) -> Weights:
    """All dense weights of atoms as two TF32 numbers each, stored as the tensor cores read them."""
    found = {}
    for name, weight in weights.items():
        stem, _, last = name.rpartition(".")
        if last == "weight" and weight.dim() == 2 and stem.startswith(("message.", "update.", "readout.1")):
            found[f"{stem}.{FORTH}"], found[f"{stem}.{BACK}"] = split(weight), split(weight.T).mT
    return found


def choose_forms(products: Products) -> tuple[str, str, dict[str, Precision]]:
    """What the names of weights end in, for products with them and with them transposed; and what the kernels are told of a whole one."""
    return (FORTH, BACK, {}) if products == "split" else ("weight", "weight", {"precision": products})


def fused_parts(products: Products, tiles: Tiles = Tiles()) -> AtomParts:
    """All dense parts in kernels that multiply in a precision, or with weights that `split_weights` has split."""
    forth, back, how = choose_forms(products)
    onwards: dict[str, Any] = {**how, "launch": tiles.forth}
    backwards: dict[str, Any] = {**how, "launch": tiles.back}

    def context(q: Tensor, weights: Weights, layer: int, _: Any) -> tuple[Tensor, Tensor]:
        name = f"message.{layer}"
        hidden, z = linear(q, weights[f"{name}.1.{forth}"], weights[f"{name}.1.bias"], silu=True, **onwards)
        assert z is not None, "asked for with silu"
        x, _ = linear(hidden, weights[f"{name}.2.{forth}"], weights[f"{name}.2.bias"], **onwards)
        return x, z

    def context_adjoint(qbar: Tensor, xbar: Tensor, z: Tensor, weights: Weights, layer: int, _: Any) -> Tensor:
        name = f"message.{layer}"
        hidden, _ = linear(xbar, weights[f"{name}.2.{back}"], transpose=True, slope_at=z, **backwards)
        return linear(hidden, weights[f"{name}.1.{back}"], transpose=True, residual=qbar, **backwards)[0]

    def update(
        q: Tensor, mu: Tensor, weights: Weights, layer: int, epsilon: float, _: Any, last: bool
    ) -> tuple[Tensor, Tensor | None, Kept]:
        name = f"update.{layer}"
        vu, norm, dot = mix(mu, weights[f"{name}.mix.{forth}"], epsilon, launch=tiles.mix, **how)
        hidden, z = linear(
            q, weights[f"{name}.1.{forth}"], weights[f"{name}.1.bias"], second=norm, silu=True, **onwards
        )
        assert z is not None, "asked for with silu"
        second = weights[f"{name}.2.{forth}"], weights[f"{name}.2.bias"]
        q, mu_after, gates = gate(hidden, *second, q, None if last else mu, vu, dot, launch=tiles.gate, **how)
        return q, mu_after, Kept(vu, dot, norm, z, gates)

    def update_adjoint(
        qbar: Tensor, mubar: Tensor | None, kept: Kept, weights: Weights, layer: int, _: Any
    ) -> tuple[Tensor, Tensor]:
        name, f = f"update.{layer}", qbar.shape[1]
        zbar = ungate(
            qbar,
            mubar,
            kept.vu,
            kept.dot,
            kept.z,
            weights[f"{name}.2.{back}"],
            launch=tiles.ungate,
            **how,
        )
        both, _ = linear(zbar, weights[f"{name}.1.{back}"], transpose=True, residual=qbar, **backwards)
        below = unmix(
            qbar,
            both[:, f:],
            mubar,
            kept.gates,
            kept.vu,
            kept.norm,
            weights[f"{name}.mix.{back}"],
            launch=tiles.unmix,
            **how,
        )
        # all that reads qbar takes rows with a stride
        return both[:, :f], below

    def readout(q: Tensor, weights: Weights, _: Any) -> tuple[Tensor, Tensor]:
        z, _none = linear(q, weights[f"readout.1.{forth}"], weights["readout.1.bias"], **onwards)
        # energy and the gradient that the way back begins with come from one kernel
        return read_out(z, weights["readout.2.weight"], weights["readout.2.bias"])

    def readout_adjoint(zbar: Tensor, weights: Weights, _: Any) -> Tensor:
        return linear(zbar, weights[f"readout.1.{back}"], transpose=True, **backwards)[0]

    return AtomParts(context, context_adjoint, update, update_adjoint, readout, readout_adjoint)
