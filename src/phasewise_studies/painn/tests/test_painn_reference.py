"""The plain model: symmetries, smoothness, neighbours; and the hand-derived forces against autograd and finite differences."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from phasewise_studies.painn import reference
from phasewise_studies.painn.adjoint import energies_and_pulls, prune_weights
from phasewise_studies.painn.layout import Atoms, Sizes, pad_edges
from phasewise_studies.painn.messages import PlainMessages
from phasewise_studies.painn.tests.painn_molecules import SMALL, draw_molecule, join, small_weights

CELL = torch.tensor([[6.0, 0.0, 0.0], [1.5, 7.0, 0.0], [0.5, -1.0, 8.0]], dtype=torch.float64)


def run(atoms: Atoms, sizes: Sizes = SMALL) -> tuple[torch.Tensor, torch.Tensor]:
    return reference.energy_and_forces(
        atoms, *reference.find_neighbours(atoms, sizes.cutoff), small_weights(sizes), sizes
    )


def rotation(seed: int) -> torch.Tensor:
    q, r = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)))
    return q * torch.sign(torch.diagonal(r))


@pytest.mark.parametrize("basis", ["gaussian", "bessel"])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_rotation_turns_the_forces_and_leaves_the_energy(basis: str, periodic: bool) -> None:
    sizes = replace(SMALL, basis=basis)
    atoms = join([draw_molecule(12, 1)], CELL[None] if periodic else None)
    turn = rotation(3)
    turned = replace(atoms, positions=atoms.positions @ turn.T + 11.0, cell=CELL[None] @ turn.T if periodic else None)
    (energy, forces), (energy_turned, forces_turned) = run(atoms, sizes), run(turned, sizes)
    assert torch.allclose(energy, energy_turned, atol=1e-10, rtol=1e-12)
    assert torch.allclose(forces @ turn.T, forces_turned, atol=1e-10)
    assert forces.abs().max() > 1e-2


def test_renumbering_atoms_renumbers_forces() -> None:
    positions, numbers = draw_molecule(11, 2)
    order = torch.randperm(11, generator=torch.Generator().manual_seed(5))
    (energy, forces), (again, shuffled) = (
        run(join([(positions, numbers)])),
        run(join([(positions[order], numbers[order])])),
    )
    assert torch.allclose(energy, again, atol=1e-11)
    assert torch.allclose(forces[order], shuffled, atol=1e-11)


def test_an_atom_in_another_image_of_the_cell_changes_nothing() -> None:
    atoms = join([draw_molecule(12, 1)], CELL[None])
    moved = atoms.positions.clone()
    moved[3] += 2 * CELL[0] - CELL[2]
    moved[7] -= 3 * CELL[1]
    (energy, forces), (again, same) = run(atoms), run(replace(atoms, positions=moved))
    assert torch.allclose(energy, again, atol=1e-10)
    assert torch.allclose(forces, same, atol=1e-10)


@pytest.mark.parametrize("basis", ["gaussian", "bessel"])
def test_energy_and_force_are_continuous_where_an_atom_crosses_the_cutoff(basis: str) -> None:
    sizes = replace(SMALL, basis=basis)
    found = []
    for d in (sizes.cutoff - 1e-6, sizes.cutoff + 1e-6):
        positions = torch.tensor([[0.0, 0, 0], [1.1, 0, 0], [d, 0, 0]], dtype=torch.float64)
        found.append(run(join([(positions, torch.tensor([8, 1, 6]))]), sizes))
    (energy, forces), (energy_beyond, forces_beyond) = found
    # what the other neighbour's force does on the way is no jump
    slope = (forces + forces_beyond)[2, 0] / 2
    assert abs(energy_beyond - energy + slope * 2e-6) < 1e-11
    assert (forces - forces_beyond).abs().max() < 1e-5


def test_no_edge_joins_two_systems_and_a_batch_is_its_members() -> None:
    members = [draw_molecule(count, seed) for seed, count in enumerate((5, 1, 9))]
    batch = join(members)
    i, j, _ = reference.find_neighbours(batch, 5.0)
    assert torch.equal(batch.system[i], batch.system[j])
    energy, forces = run(batch)
    alone = [run(join([member])) for member in members]
    assert torch.allclose(energy, torch.cat([e for e, _ in alone]), atol=1e-11)
    assert torch.allclose(forces, torch.cat([f for _, f in alone]), atol=1e-11)


def test_every_edge_has_its_opposite_and_rows_are_sorted() -> None:
    atoms = join([draw_molecule(12, 1)], CELL[None])
    edges = reference.as_edges(atoms, *reference.find_neighbours(atoms, 5.0))
    back = edges.reverse.long()
    assert torch.equal(edges.i[back], edges.j)
    assert torch.equal(edges.j[back], edges.i)
    assert torch.allclose(edges.r[back], -edges.r)
    assert torch.equal(back[back], torch.arange(len(back)))
    assert torch.equal(edges.i, edges.i.sort(stable=True).values)
    # the cell is smaller than twice the cutoff: some pairs are neighbours more than once
    assert len(torch.unique(torch.stack((edges.i, edges.j)), dim=1).T) < len(back)


def test_pieces_give_the_energy_and_forces_of_the_whole() -> None:
    atoms = join([draw_molecule(12, 1)], CELL[None])
    found = reference.find_neighbours(atoms, 5.0)
    whole = reference.energy_and_forces(atoms, *found, small_weights(), SMALL)
    pieces = reference.energy_and_forces(atoms, *found, small_weights(), SMALL, piece=37)
    assert torch.allclose(whole[0], pieces[0], atol=1e-11)
    assert torch.allclose(whole[1], pieces[1], atol=1e-11)


def pull_forces(atoms: Atoms, sizes: Sizes, *, pruned: bool, spare: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Energies and forces of the adjoint in float64; `spare` empty places in the list."""
    i, j, shift = reference.find_neighbours(atoms, sizes.cutoff)
    edges = reference.as_edges(atoms, i, j, shift)
    edges = replace(edges, r=reference.edge_vectors(atoms, i, j, shift))
    edges = pad_edges(edges, len(i) + spare, sizes.cutoff)
    weights = small_weights(sizes)
    weights = prune_weights(weights, sizes) if pruned else weights
    messages = PlainMessages(edges.r, edges.i.long(), edges.j.long(), weights, sizes)
    energy, pulls = energies_and_pulls(atoms.numbers.long(), messages, weights, sizes, pruned=pruned)
    forces = torch.zeros_like(atoms.positions).index_add(0, edges.i.long(), pulls[edges.reverse.long()] - pulls)
    energy = energy + weights["atomref"][atoms.numbers.long()]
    return reference.sum_systems(energy, atoms.system, len(atoms.start) - 1), forces


@pytest.mark.parametrize("basis", ["gaussian", "bessel"])
@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("spare", [0, 13])
def test_the_hand_derived_forces_are_those_of_autograd(basis: str, pruned: bool, spare: int) -> None:
    sizes = replace(SMALL, basis=basis)
    atoms = join([draw_molecule(12, 1), draw_molecule(7, 4)], torch.stack((CELL, CELL * 1.2)))
    energy, forces = run(atoms, sizes)
    found, pulled = pull_forces(atoms, sizes, pruned=pruned, spare=spare)
    assert torch.allclose(energy, found, atol=1e-10)
    assert torch.allclose(forces, pulled, atol=1e-10)
    assert pulled.sum(0).abs().max() < 1e-11


def test_forces_are_the_slope_of_the_energy() -> None:
    atoms = join([draw_molecule(9, 6)])
    _, forces = pull_forces(atoms, SMALL, pruned=True)
    h = 1e-5
    for atom, axis in ((0, 0), (4, 1), (8, 2)):
        ends = []
        for sign in (-1, 1):
            moved = atoms.positions.clone()
            moved[atom, axis] += sign * h
            ends.append(run(replace(atoms, positions=moved))[0])
        assert abs((ends[0] - ends[1]) / (2 * h) - forces[atom, axis]) < 1e-8
