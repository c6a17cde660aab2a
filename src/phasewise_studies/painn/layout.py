"""The shapes that every variant of PaiNN shares: the model's sizes, its weights by name, a batch of atoms, its edges.

A = atoms of the batch, E = places for edges, B = systems (molecules or boxes), F = features, K = radial functions, L = layers.
Dense weights are (outputs, inputs), as in torch.nn.Linear. Lengths are in Angstrom, energies in eV, forces in eV/Angstrom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

# elements that the embedding knows, as in schnetpack
SPECIES = 100


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a model; the defaults are those of schnetpack's PaiNN configuration."""

    features: int = 128
    layers: int = 3
    radial: int = 20
    cutoff: float = 5.0
    basis: Literal["gaussian", "bessel"] = "gaussian"
    # keeps the norm of V differentiable at 0; schnetpack's PaiNN(epsilon=1e-8)
    epsilon: float = 1e-8


# name -> tensor, see `weight_shapes`
Weights = Mapping[str, Tensor]


def weight_shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Shape of each weight; the 9F (L * 3F) rows of the filter are ordered by layer, then q, R, mu, then feature."""
    f, k = sizes.features, sizes.radial
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (SPECIES, f),
        "filter.weight": (sizes.layers * 3 * f, k),
        "filter.bias": (sizes.layers * 3 * f,),
    }
    for layer in range(sizes.layers):
        # x = A2 silu(A1 q + a1) + a2, split into q, R, mu
        shapes |= dense(f"message.{layer}.1", f, f) | dense(f"message.{layer}.2", 3 * f, f)
        # (V, U) = mu C
        shapes[f"update.{layer}.mix.weight"] = (2 * f, f)
        # (a, b, c) = B2 silu(B1 [q, |V|] + b1) + b2
        shapes |= dense(f"update.{layer}.1", f, 2 * f) | dense(f"update.{layer}.2", 3 * f, f)
    # e = w2 silu(W1 q + c1) + c2
    shapes |= dense("readout.1", f // 2, f) | dense("readout.2", 1, f // 2)
    # added to the energy of each atom of an element, in float64
    shapes["atomref"] = (SPECIES,)
    return shapes


def dense(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    """The two shapes of one dense layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


@dataclass(frozen=True)
class Atoms:
    """A batch of systems. Atoms of a system stand together; `start[b] : start[b + 1]` are those of system b."""

    # (A, 3) float64, always: rounding them to float32 costs 5e-4 eV/A for a molecule 100 A from the origin
    positions: Tensor
    # (A,) int32
    numbers: Tensor
    # (A,) int32: the system of each atom, ascending
    system: Tensor
    # (B + 1,) int32
    start: Tensor
    # (B, 3, 3) float64, rows are lattice vectors; None where nothing is periodic
    cell: Tensor | None = None


@dataclass(frozen=True)
class Edges:
    """Neighbours within the cutoff, in CSR order by receiver: row i holds edges `row_ptr[i] : row_ptr[i + 1]`.

    Both directions of a pair are there. Places from `row_ptr[A]` on are empty: i = j = 0 and r = (2 * cutoff, 0, 0),
    where the cutoff function is 0, so that an empty place adds exactly 0 to every sum.
    """

    # (A + 1,) int32
    row_ptr: Tensor
    # (E,) int32: receiver and neighbour
    i: Tensor
    j: Tensor
    # (E, 3) float32: R_j + shift . cell - R_i, subtracted in float64
    r: Tensor
    # (E,) int32: the place of the edge j -> i with the opposite r; an empty place is its own. None where nobody asked
    reverse: Tensor | None
    # () int32: edges that found no place; the results are wrong unless it is 0
    overflow: Tensor


def empty_vector(cutoff: float) -> tuple[float, float, float]:
    """The r of a place without an edge."""
    return (2 * cutoff, 0.0, 0.0)


def pad_edges(edges: Edges, capacity: int, cutoff: float) -> Edges:
    """The same edges in `capacity` places; `capacity` is at least the number of places they have."""
    missing = capacity - edges.j.shape[0]
    assert missing >= 0, "a list is padded, never cut"
    zeros = edges.j.new_zeros(missing)
    far = edges.r.new_tensor(empty_vector(cutoff)).expand(missing, 3)
    places = torch.arange(edges.j.shape[0], capacity, dtype=edges.j.dtype, device=edges.j.device)
    return replace(
        edges,
        i=torch.cat((edges.i, zeros)),
        j=torch.cat((edges.j, zeros)),
        r=torch.cat((edges.r, far)),
        reverse=None if edges.reverse is None else torch.cat((edges.reverse, places)),
    )
