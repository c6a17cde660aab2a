"""Run by test_painn_triton_interpret.py in a process where Triton interprets: prints what each case gave, as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import torch

from phasewise_studies.painn.kernels import cells
from phasewise_studies.painn.kernels.boxes import plan_box
from phasewise_studies.painn.kernels.dense import TileLaunch
from phasewise_studies.painn.kernels.message import RowLaunch
from phasewise_studies.painn.layout import Edges
from phasewise_studies.painn.tests import painn_kernel_cases as cases
from phasewise_studies.painn.tests.painn_tile_cases import LENGTHS, check_layers, check_poison, draw_rows

SKEWED = torch.tensor([[6.0, 0.0, 0.0], [1.0, 4.0, 0.0], [-1.0, 1.0, 7.0]])
TILE = RowLaunch(32, 2, warps=2, tile=8)
LONG = torch.tensor([[10.5, 0.0, 0.0], [2.0, 6.0, 0.0], [0.0, -1.0, 5.5]])


def check_nothing() -> cases.Found:
    """No edges at all, in one place: rows are empty and every result is what went in."""
    atoms = cases.draw_batch([1, 1, 1])
    empty = cases.plain_list(atoms, 3)
    found = cases.check_messages(atoms, empty, 32, [RowLaunch(32, 2, 2), TILE], [RowLaunch(32, 2, 2), TILE])
    return found | cases.check_molecules(atoms, 3)


def check_tiles() -> cases.Found:
    """Rows around the length of a tile, and of none, with warps of 16 and of 32 features; and what is not finite stays where it belongs."""
    atoms, edges = draw_rows(LENGTHS)
    wide = RowLaunch(32, 4, tile=8)
    return (
        cases.check_messages(atoms, edges, 32, [TILE, wide], [TILE, wide])
        | check_poison(edges, 32, wide)
        | check_layers(32, TILE)
    )


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


def main() -> None:
    """Measure all cases."""
    atoms = cases.draw_batch([1, 6, 17, 3])
    edges = cases.plain_list(atoms, 230)
    small = cases.draw_batch([3, 1])
    few = cases.plain_list(small, 7)
    found = {
        "molecules": cases.check_molecules(atoms, 230),
        "nothing": check_nothing(),
        "skewed": check_box(6, SKEWED, 400),
        "long": check_box(11, LONG, 600),
        "crowded": check_crowded_cell(),
        "full-cell": check_full_cell(),
        "lost-atoms": check_lost_atoms(),
        "short-box": check_short_box(),
        "messages": cases.check_messages(
            small,
            few,
            64,
            [
                RowLaunch(32, 2, 1),
                RowLaunch(64, 3, 2),
                RowLaunch(32, 2, 4, streamed=True),
                RowLaunch(64, 2, 1, streamed=True),
            ],
            [
                RowLaunch(32, 2, 2),
                RowLaunch(64, 3, 2),
                RowLaunch(32, 2, 4, streamed=True),
                RowLaunch(64, 2, 1, streamed=True),
            ],
        ),
        "tiles": check_tiles(),
        "bessel": cases.check_messages(
            small, few, 32, [RowLaunch(32, 1, 4), TILE], [RowLaunch(32, 4, 1), TILE], basis="bessel"
        ),
        # records as long as those of a table
        "four-functions": cases.check_messages(
            small, few, 32, [RowLaunch(32, 1, 4), TILE], [RowLaunch(32, 4, 1), TILE], functions=4
        ),
        "table": cases.check_messages(small, few, 32, [RowLaunch(32, 1, 2)], [RowLaunch(32, 4, 1)], tabulated=True),
        "forces": cases.check_forces(edges, atoms, 2),
        "atoms": cases.check_atoms(19, 64, 32, few=TileLaunch(16, 32, 32)),
    }
    print(json.dumps(found))


def check_box(count: int, cell: torch.Tensor, room: int) -> cases.Found:
    """One box, and the same with a skin of 1 A."""
    atoms = cases.draw_box(count, cell)
    boxes = (plan_box(cell, cases.CUTOFF + skin, count) for skin in (0.0, 1.0))
    return cases.check_box(atoms, *boxes, room)


if __name__ == "__main__":
    main()
