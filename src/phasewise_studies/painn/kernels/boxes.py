"""The cells of a periodic box: how many, how far a search reaches, how many atoms each has room for. No Triton here.

Fractional coordinates s = R inv(H) (rows of H are lattice vectors) are cut into n_1 x n_2 x n_3 cells. A cell is h_k / n_k
thick, where h_k, the distance between opposite faces of the box, is 1 / |column k of inv(H)|; a search reaches
ceil(cutoff n_k / h_k) cells to either side. A box that is thinner than the cutoff meets itself more than once: right, and slow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.painn.inputs import check_cell

# a cell with room for more than this makes tiles that are mostly empty; finer cells are better then
MOST_SLOTS = 64
# an even gas of m atoms a cell rarely holds more than this many times m in one, and liquids are more even
SPREAD = 2.0


@dataclass(frozen=True)
class Box:
    """One periodic box on the device, and how it is cut. Positions may change freely, the cell only through `plan_box`."""

    # (3, 3) float64, rows are lattice vectors
    cell: Tensor
    cutoff: float
    cells: tuple[int, int, int]
    reach: tuple[int, int, int]
    # atoms that a cell has room for
    slots: int


def plan_box(cell: Tensor, cutoff: float, atoms: int, *, slots: int | None = None) -> Box:
    """Cut a box for so many atoms; waits for the device, so do it once, outside a step.

    Raises:
        UserError: the cell has no volume.
    """
    check_cell(cell)
    host = cell.detach().double().cpu().contiguous()
    heights = (1 / torch.linalg.inv(host).norm(dim=0)).tolist()
    for finer in range(1, 5):
        cells = tuple(max(1, math.floor(finer * h / cutoff)) for h in heights)
        mean = atoms / math.prod(cells)
        if SPREAD * mean <= MOST_SLOTS:
            break
    reach = tuple(math.ceil(cutoff * n / h) for n, h in zip(cells, heights, strict=True))
    if slots is None:
        slots = min(MOST_SLOTS, max(16, 1 << math.ceil(math.log2(max(1.0, SPREAD * mean)))))
    return Box(cell=host.to(cell.device), cutoff=cutoff, cells=cells, reach=reach, slots=slots)
