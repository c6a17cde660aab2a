"""The lists in plain PyTorch find what brute force finds, in fixed places or not, and say when places ran out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from phasewise_studies.painn import neighbours, reference
from phasewise_studies.painn.layout import Atoms, Edges
from phasewise_studies.painn.tests.painn_molecules import draw_molecule, join

SMALL_CELL = torch.tensor([[6.0, 0.0, 0.0], [1.5, 7.0, 0.0], [0.5, -1.0, 8.0]], dtype=torch.float64)


def box(atoms: int, side: float) -> Atoms:
    generator = torch.Generator().manual_seed(2)
    positions = (torch.rand(atoms, 3, dtype=torch.float64, generator=generator) - 0.3) * 1.5 * side
    cell = torch.eye(3, dtype=torch.float64) * side
    cell[1, 0] = 0.1 * side
    return join([(positions, torch.ones(atoms))], cell[None])


SYSTEMS = {
    "molecules": lambda: join([draw_molecule(9, 1), draw_molecule(1, 2), draw_molecule(14, 3)]),
    "small-cell": lambda: join([draw_molecule(12, 1)], SMALL_CELL[None]),
    "two-cells": lambda: join([draw_molecule(12, 1), draw_molecule(7, 2)], torch.stack((SMALL_CELL, 2 * SMALL_CELL))),
    "cells": lambda: box(150, 16.0),
}


def rows(i: torch.Tensor, j: torch.Tensor, r: torch.Tensor) -> set[tuple[int, int, float, float, float]]:
    return {(int(a), int(b), *(round(float(x), 4) + 0.0 for x in v)) for a, b, v in zip(i, j, r, strict=True)}


def expected(atoms: Atoms) -> set[tuple[int, int, float, float, float]]:
    i, j, shift = reference.find_neighbours(atoms, 5.0)
    return rows(i, j, reference.edge_vectors(atoms, i, j, shift))


def real(edges: Edges) -> set[tuple[int, int, float, float, float]]:
    count = int(edges.row_ptr[-1])
    assert torch.equal(edges.i[:count].bincount(minlength=len(edges.row_ptr) - 1), edges.row_ptr.diff())
    return rows(edges.i[:count], edges.j[:count], edges.r[:count])


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("build", [neighbours.exact, neighbours.in_places])
def test_a_list_is_what_brute_force_finds(name: str, build) -> None:
    atoms = SYSTEMS[name]()
    plan = neighbours.plan_list(atoms, 5.0)
    assert bool(plan.grid) == (name == "cells")
    found = build(atoms, plan)
    assert int(found.overflow) == 0
    assert real(found) == expected(atoms)


def test_places_without_an_edge_lie_beyond_the_cutoff() -> None:
    atoms = SYSTEMS["molecules"]()
    plan = neighbours.plan_list(atoms, 5.0)
    found = neighbours.in_places(atoms, plan)
    empty = slice(int(found.row_ptr[-1]), None)
    assert len(found.j) == plan.capacity
    assert (found.r[empty] == torch.tensor([10.0, 0, 0])).all()
    assert not found.j[empty].any()


@pytest.mark.parametrize("name", ["molecules", "cells"])
def test_edges_without_a_place_are_counted(name: str) -> None:
    atoms = SYSTEMS[name]()
    plan = neighbours.plan_list(atoms, 5.0)
    edges = len(expected(atoms))
    assert int(neighbours.in_places(atoms, replace(plan, capacity=edges)).overflow) == 0
    assert int(neighbours.in_places(atoms, replace(plan, capacity=edges - 3)).overflow) == 3


def test_a_cell_that_is_too_full_is_counted() -> None:
    atoms = SYSTEMS["cells"]()
    plan = replace(neighbours.plan_list(atoms, 5.0), slots=2)
    assert int(neighbours.in_places(atoms, plan).overflow) > 0
