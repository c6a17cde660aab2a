"""Run by test_painn_lists_interpret.py in a process where Triton interprets: neighbour lists; prints what the named cases gave."""

from __future__ import annotations

from dataclasses import replace

import torch

from phasewise_studies.painn.kernels import cells
from phasewise_studies.painn.kernels.boxes import plan_box
from phasewise_studies.painn.layout import Edges
from phasewise_studies.painn.tests import painn_kernel_cases as cases
from phasewise_studies.testing import print_cases

SKEWED = torch.tensor([[6.0, 0.0, 0.0], [1.0, 4.0, 0.0], [-1.0, 1.0, 7.0]])
LONG = torch.tensor([[10.5, 0.0, 0.0], [2.0, 6.0, 0.0], [0.0, -1.0, 5.5]])


def check_box(count: int, cell: torch.Tensor, room: int) -> cases.Found:
    """One box, and the same with a skin of 1 A."""
    atoms = cases.draw_box(count, cell)
    boxes = (plan_box(cell, cases.CUTOFF + skin, count) for skin in (0.0, 1.0))
    return cases.check_box(atoms, *boxes, room)


def check_full_cell() -> cases.Found:
    """More atoms than a cell has slots for: the list is wrong and says so."""
    atoms = cases.draw_box(9, SKEWED)
    found, _ = cells.find_in_box(atoms, plan_box(SKEWED, cases.CUTOFF, 9, slots=2), 300)
    return {"said": int(found.overflow) > 0, "in-bounds": in_bounds(found, 9)}


def check_crowded_cell() -> cases.Found:
    """One cell of more atoms than a tile has rows, and columns, and of empty slots."""
    cell = 12.0 * torch.eye(3)
    boxes = (
        replace(plan_box(cell, cases.CUTOFF + skin, 35, slots=64), cells=(1, 1, 1), reach=(1, 1, 1))
        for skin in (0.0, 1.0)
    )
    return cases.check_box(cases.draw_box(35, cell), *boxes, 600)


def in_bounds(edges: Edges, atoms: int) -> bool:
    """Whether a list that overflowed can still be walked safely."""
    rows, places = edges.row_ptr, edges.j.shape[0]
    inside = (edges.j >= 0) & (edges.j < atoms) & (edges.reverse >= 0) & (edges.reverse < places)
    return bool(inside.all() and (rows[1:] >= rows[:-1]).all() and rows[-1] <= places)


def check_lost_atoms() -> cases.Found:
    """Atoms that are nowhere, or too far away, are counted, and nothing is written where there is no cell."""
    found = {}
    for value in (torch.nan, torch.inf, -torch.inf, 1e6):
        atoms = cases.draw_box(9, SKEWED)
        atoms.positions[4, 1] = atoms.positions[7] = value
        edges, _ = cells.find_in_box(atoms, plan_box(SKEWED, cases.CUTOFF, 9), 600)
        found[f"{value}"] = int(edges.overflow) == 2 and in_bounds(edges, 9)
    return found


def check_short_box() -> cases.Found:
    """Fewer places than edges in a box."""
    atoms = cases.draw_box(5, SKEWED)
    whole, _ = cells.find_in_box_plain(atoms, plan_box(SKEWED, cases.CUTOFF, 5), 300)
    missing, _ = cells.find_in_box(atoms, plan_box(SKEWED, cases.CUTOFF, 5), int(whole.row_ptr[-1]) - 11)
    return {"said": int(missing.overflow) == 11, "in-bounds": in_bounds(missing, 5)}


CASES = {
    "molecules": lambda: cases.check_molecules(cases.draw_batch([1, 6, 17, 3]), 230),
    "skewed": lambda: check_box(6, SKEWED, 400),
    "full-cell": check_full_cell,
    "short-box": check_short_box,
    "long": lambda: check_box(11, LONG, 600),
    "crowded": check_crowded_cell,
    "lost-atoms": check_lost_atoms,
}

if __name__ == "__main__":
    print_cases(CASES)
