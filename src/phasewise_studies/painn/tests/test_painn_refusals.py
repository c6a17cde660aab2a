"""Never a wrong number: what is refused, and how it is said."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest
import torch

from phasewise.kit.graphs import capture
from phasewise.records.errors import UserError
from phasewise_studies.painn import reference
from phasewise_studies.painn.data import as_atoms
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.layout import Atoms, Sizes
from phasewise_studies.painn.product.evaluator import Evaluator
from phasewise_studies.painn.switches import EVERYTHING, Switches
from phasewise_studies.painn.tests.painn_molecules import SMALL, draw_molecule, join, small_weights

PLAIN = Switches(batched=True, gather="select", places=True, forces="analytic")
FULL = replace(Switches(**EVERYTHING), compiled=False)
VARIANTS = {
    "baseline": Switches(batched=True),
    "places": Switches(batched=True, gather="select", places=True),
    "analytic": PLAIN,
    "kernels": replace(PLAIN, neighbours="triton", message="triton", assembly="triton"),
}
# whose kernels need blocks of 64 features
WIDE = replace(SMALL, features=64)
SMALL_CELL = torch.diag(torch.tensor([6.0, 7.0, 8.0], dtype=torch.float64))
# of cells, an odd number along each vector
WIDE_CELL = 15.5 * torch.eye(3, dtype=torch.float64)
SYSTEMS = {
    "molecules": lambda: join([draw_molecule(9, 1), draw_molecule(5, 2), draw_molecule(1, 3)]),
    "boxes": lambda: join([draw_molecule(9, 1), draw_molecule(5, 2)], torch.stack((SMALL_CELL, 2 * SMALL_CELL))),
    "small-box": lambda: join([draw_molecule(9, 1)], SMALL_CELL[None]),
    "cells": lambda: join([draw_molecule(20, 1)], WIDE_CELL[None]),
}


def as_dict(atoms: Atoms) -> dict[str, torch.Tensor]:
    parts = ((field.name, getattr(atoms, field.name)) for field in fields(Atoms))
    return {name: part for name, part in parts if part is not None}


def place(atoms: Atoms, device: str) -> Atoms:
    """The same atoms there."""
    return Atoms(**{name: part.to(device) for name, part in as_dict(atoms).items()})


def lose(atoms: Atoms, atom: int, value: float) -> Atoms:
    """One coordinate of one atom is this."""
    positions = atoms.positions.clone()
    positions[atom, 1] = value
    return replace(atoms, positions=positions)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_system_with_a_position_that_is_not_finite_has_no_energy_and_no_forces(
    variant: str, name: str, value: float
) -> None:
    atoms = SYSTEMS[name]()
    sizes = WIDE if variant == "kernels" else SMALL
    engine = make_engine(VARIANTS[variant], small_weights(sizes), sizes, atoms, strain=True)
    whole = engine.evaluate(atoms)
    for system, (first, last) in enumerate(zip(atoms.start[:-1].tolist(), atoms.start[1:].tolist(), strict=True)):
        found = engine.evaluate(lose(atoms, last - 1, value))
        one, mine = torch.arange(len(whole.energy)) == system, slice(first, last)
        assert found.energy[one].isnan().all() and found.strain[one].isnan().all()
        assert found.forces[mine].isnan().all() and int(found.forces.isnan().sum()) == 3 * (last - first)
        for now, before in ((found.energy, whole.energy), (found.strain, whole.strain)):
            assert torch.allclose(now[~one], before[~one], rtol=1e-6, atol=1e-6)


def test_a_plan_for_positions_that_are_not_finite_still_fits_others() -> None:
    atoms = SYSTEMS["cells"]()
    engine = make_engine(PLAIN, small_weights(), SMALL, lose(atoms, 3, torch.nan), room=3.0)
    assert engine.evaluate(atoms).energy.isfinite().all()


# widths and numbers of radial functions that the kernels of messages and atoms do not take
UNUSUAL = {
    "96 features are no multiple of 64": {"features": 96},
    "32 features are no multiple of 64": {"features": 32},
    "25 radial functions are an odd number": {"features": 64, "radial": 25},
}


def hold_to_reference(sizes: Sizes, device: str, tolerance: float) -> tuple[str, ...]:
    """Energies and forces of the whole stack; what fell back."""
    atoms, weights = SYSTEMS["molecules"](), small_weights(sizes)
    energy, forces = reference.energy_and_forces(atoms, *reference.find_neighbours(atoms, sizes.cutoff), weights, sizes)
    engine = make_engine(FULL, weights, sizes, place(atoms, device))
    found = engine.evaluate(place(atoms, device))
    assert (found.energy.cpu() - energy).abs().max() < 10 * tolerance
    assert (found.forces.cpu() - forces).abs().max() < tolerance
    return engine.fallbacks


@pytest.mark.parametrize("obstacle", UNUSUAL)
def test_a_model_that_the_kernels_do_not_take_runs_by_plain_parts_and_says_so(obstacle: str) -> None:
    fallbacks = hold_to_reference(replace(SMALL, **UNUSUAL[obstacle]), "cpu", 1e-5)
    assert f"triton-message: {obstacle}, plain PyTorch ran instead" in fallbacks
    assert f"tf32x3: {obstacle}, float32 products ran instead" in fallbacks


@pytest.mark.gpu
@pytest.mark.parametrize("obstacle", UNUSUAL)
def test_on_a_gpu_such_a_model_falls_back_where_it_has_to(obstacle: str) -> None:
    fallbacks = hold_to_reference(replace(SMALL, **UNUSUAL[obstacle]), "cuda", 1e-4)
    assert [reason.split(": ")[0] for reason in fallbacks] == ["triton-message", "tf32x3"]


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [{"features": 64, "radial": 4}, {"features": 192}], ids=str)
def test_on_a_gpu_an_unusual_model_that_the_kernels_take_falls_back_nowhere(sizes: dict[str, int]) -> None:
    assert hold_to_reference(replace(SMALL, **sizes), "cuda", 1e-4) == ()


MIXED = torch.tensor([0] * 8 + [1, 0] + [1] * 4 + [2])
NOTHING = {"positions": torch.zeros(0, 3), "numbers": torch.zeros(0), "system": torch.zeros(0)}
WRONG = {
    "numbers has the shape (14,) in a batch of 15 atoms and 3 systems: give (15,)": {"numbers": torch.ones(14)},
    "positions has the shape (15, 2) in": {"positions": torch.zeros(15, 2)},
    "system has the shape (16,) in": {"system": torch.zeros(16)},
    "cell has the shape (1, 3, 3) in": {"cell": SMALL_CELL[None]},
    "system[8] is 1, where start allows 0: give the atoms in the order of their systems": {"system": MIXED},
    "start [0, 9, 14, 16] of 15 atoms": {"start": torch.tensor([0, 9, 14, 16])},
    "start [0, 14, 9, 15] of 15 atoms": {"start": torch.tensor([0, 14, 9, 15])},
    "numbers[0] is 100: give atomic numbers from 0 to 99": {"numbers": torch.full((15,), 100)},
    "cell [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]: give three": {"cell": torch.zeros(3, 3, 3)},
    "cell [[nan, nan, nan], [nan, nan, nan], [nan, nan, nan]]: give three": {"cell": torch.full((3, 3, 3), torch.nan)},
    "a batch of 0 atoms in 0 systems: give at least one atom": {**NOTHING, "start": torch.zeros(1)},
    "a batch of 0 atoms in 1 systems: give at least one atom": {**NOTHING, "start": torch.zeros(2)},
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_batch_that_is_none_is_refused_with_a_sentence(sentence: str) -> None:
    # one that leaves the elements to the plan
    evaluator = Evaluator(small_weights(), SMALL, elements=range(101))
    with pytest.raises(UserError, match=re.escape(sentence)):
        evaluator(as_dict(SYSTEMS["molecules"]()) | WRONG[sentence])


@pytest.mark.parametrize("name", ["positions", "numbers", "system", "start"])
def test_a_batch_without_one_of_its_tensors_says_which(name: str) -> None:
    batch = as_dict(SYSTEMS["molecules"]())
    del batch[name]
    with pytest.raises(UserError, match=f"the batch has no {name}: give positions, numbers, system, start"):
        as_atoms(batch)


def test_positions_of_other_atoms_than_were_planned_for_are_refused() -> None:
    evaluator, batch = Evaluator(small_weights(), SMALL), as_dict(SYSTEMS["molecules"]())
    evaluator(batch)
    with pytest.raises(UserError, match="numbers has the shape"):
        evaluator(batch | {"positions": batch["positions"][:-1]})


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_system_without_atoms_has_no_energy_of_its_own(variant: str) -> None:
    sizes = WIDE if variant == "kernels" else SMALL
    atoms = SYSTEMS["molecules"]()
    gap = replace(
        atoms, start=torch.tensor([0, 9, 9, 14, 15, 15]).int(), system=torch.tensor([0] * 9 + [2] * 5 + [3]).int()
    )
    found, whole = (
        make_engine(VARIANTS[variant], small_weights(sizes), sizes, one).evaluate(one) for one in (gap, atoms)
    )
    assert not found.energy[[1, 4]].any() and torch.allclose(found.energy[[0, 2, 3]], whole.energy)
    assert torch.allclose(found.forces, whole.forces)


@pytest.mark.gpu
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ["molecules", "small-box", "cells"])
def test_on_a_gpu_a_graph_refuses_positions_that_are_not_finite_and_goes_on(name: str, value: float) -> None:
    atoms = place(SYSTEMS[name](), "cuda")
    engine = make_engine(FULL, small_weights(WIDE), WIDE, atoms, strain=True)

    def step(positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = engine.evaluate(replace(atoms, positions=positions))
        return result.energy, result.forces, result.strain

    captured = capture(step, atoms.positions)
    assert captured.is_graph, captured.reason
    whole = [part.clone() for part in captured.call(atoms.positions)]
    for _ in range(2):
        energy, forces, strain = captured.call(lose(atoms, 0, value).positions)
        assert energy[0].isnan() and strain[0].isnan().all() and forces[: atoms.start[1]].isnan().all()
        assert torch.equal(forces[atoms.start[1] :], whole[1][atoms.start[1] :])
        assert torch.equal(energy[1:], whole[0][1:])
        again = captured.call(atoms.positions)
        assert all(torch.equal(now, before) for now, before in zip(again, whole, strict=True))
