"""Operations and bytes of one step, counted from the equations; a multiplication with its addition is 2.

F features, L = 3 layers, K = 20 radial functions. Per edge and layer the filter is 2 (K + 1) 3F operations and its slope as
many again; the first layer has no mu part, and the backward pass evaluates the filter a second time.
"""

from __future__ import annotations

import math
from functools import cache

from phasewise import Shape
from phasewise_studies.painn.data import as_atoms, make_batch
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.neighbours import count_edges as count
from phasewise_studies.painn.neighbours import plan_list

RADIAL = Sizes().radial
# parts of the filter that the pruned model evaluates: 2F, 3F, 3F
FILTER_PARTS = 8
SMALL_BOX = "4x4x4"


def count_edges(shape: Shape) -> tuple[int, int, int]:
    """Atoms, edges and systems of the frame of seed 0."""
    return _count_edges(shape.system, shape.get("count", 0), shape.get("repeat", ""))


@cache
def _count_edges(system: str, molecules: int, repeat: str) -> tuple[int, int, int]:
    if not repeat:
        return _count(Shape(system=system, count=molecules))
    # a box is the same everywhere: a small one tells the number of neighbours
    few, edges, _ = _count(Shape(system=system, repeat=SMALL_BOX))
    times = math.prod(map(int, repeat.split("x"))) / math.prod(map(int, SMALL_BOX.split("x")))
    return round(few * times), round(edges * times), 1


def _count(shape: Shape) -> tuple[int, int, int]:
    batch = make_batch(shape, 0)
    atoms = as_atoms(batch)
    return len(batch["numbers"]), count(atoms, plan_list(atoms, Sizes().cutoff)), len(batch["start"]) - 1


def count_flops(atoms: int, edges: int, features: int, *, forces: bool) -> float:
    """Operations of the pruned model with exact filters."""
    f = features
    # A1, A2 in two layers; mix, B1 in three; B2 in two and the last without b; readout
    atom = 2 * (2 * 4 * f * f + 3 * (6 * f * f + 2 * f * f) + (2 * 3 + 2) * f * f + f * f // 2)
    # products with x, u and mu
    edge = FILTER_PARTS * f * (2 * (RADIAL + 1) + 2) + 3 * 3 * 4 * f
    if not forces:
        return atoms * atom + edges * edge
    back = FILTER_PARTS * f * (4 * (RADIAL + 1) + 6) + 3 * 3 * 6 * f
    return 2 * atoms * atom + edges * (edge + back)


def count_bytes(atoms: int, edges: int, features: int, *, forces: bool) -> float:
    """Bytes through device memory if each layer is one pass each way and neighbours' rows are read from cache."""
    f = features
    # q 1, mu 3, x 3 written and read once a layer forwards; kept V, U 6, |V|, z, gates 3 for the adjoint
    forward = 3 * 2 * 7 * f * 4
    backward = 3 * (2 * 7 + 12) * f * 4 if forces else 0
    # positions, list and pulls
    return atoms * (forward + backward + 24) + edges * (32 if forces else 20)
