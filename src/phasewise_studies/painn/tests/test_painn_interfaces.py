"""ASE, TorchSim and the module that leaves Python: the same energies and forces as the reference."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError
from phasewise_studies.painn import reference
from phasewise_studies.painn.data import as_atoms
from phasewise_studies.painn.product.deploy import Potential, PotentialOnEdges
from phasewise_studies.painn.product.evaluator import Evaluator
from phasewise_studies.painn.tests.painn_molecules import SMALL, draw_molecule, join, small_weights
from phasewise_studies.painn.weights import draw_weights


def expected(batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    atoms = as_atoms(batch)
    return reference.energy_and_forces(atoms, *reference.find_neighbours(atoms, SMALL.cutoff), small_weights(), SMALL)


def as_dict(*counts: int) -> dict[str, torch.Tensor]:
    atoms = join([draw_molecule(count, seed) for seed, count in enumerate(counts)])
    return {"positions": atoms.positions, "numbers": atoms.numbers, "system": atoms.system, "start": atoms.start}


def test_an_evaluator_plans_once_for_systems_of_a_kind_and_again_for_others() -> None:
    evaluator = Evaluator(small_weights(), SMALL)
    for counts in ((9, 5), (9, 5), (4,)):
        batch = as_dict(*counts)
        result = evaluator(batch)
        energy, forces = expected(batch)
        assert torch.allclose(result.energy, energy, atol=1e-4)
        assert torch.allclose(result.forces, forces, atol=1e-5)
    assert evaluator.plans == 2


def test_an_evaluator_makes_room_when_atoms_come_closer() -> None:
    evaluator = Evaluator(small_weights(), SMALL)
    batch = as_dict(14)
    evaluator({**batch, "positions": batch["positions"] * 4})
    result = evaluator(batch)
    assert torch.allclose(result.forces, expected(batch)[1], atol=1e-5)
    assert evaluator.plans == 2


def test_the_ase_calculator_gives_energy_forces_and_the_slope_of_the_energy_as_stress() -> None:
    ase = pytest.importorskip("ase", reason="needs the package ase")
    from phasewise_studies.painn.product.ase_calculator import PainnCalculator

    positions, numbers = draw_molecule(12, 1)
    atoms = ase.Atoms(numbers.numpy(), positions.numpy(), cell=[6.5, 7.0, 8.0], pbc=True)
    atoms.calc = PainnCalculator(Evaluator(small_weights(), SMALL))
    stress = atoms.get_stress(voigt=False)
    ends = []
    for sign in (-1, 1):
        strained = atoms.copy()
        strained.calc = atoms.calc
        strain = torch.eye(3, dtype=torch.float64)
        strain[0, 1] += sign * 1e-3
        strained.set_cell(atoms.cell @ strain.numpy().T, scale_atoms=True)
        ends.append(strained.get_potential_energy())
    slope = (ends[1] - ends[0]) / 2e-3 / atoms.get_volume()
    assert abs(slope - stress[0, 1]) < 2e-5
    assert abs(atoms.get_forces().sum()) < 1e-5


def test_the_ase_calculator_refuses_a_slab() -> None:
    ase = pytest.importorskip("ase", reason="needs the package ase")
    from phasewise_studies.painn.product.ase_calculator import PainnCalculator

    atoms = ase.Atoms("H2", [[0, 0, 0], [0.8, 0, 0]], cell=[9, 9, 9], pbc=[True, True, False])
    atoms.calc = PainnCalculator(Evaluator(small_weights(), SMALL))
    with pytest.raises(UserError, match="all or none"):
        atoms.get_potential_energy()


def test_elements_that_the_student_never_saw_are_refused() -> None:
    evaluator = Evaluator.load()
    assert evaluator.elements == {1, 6, 7, 8}
    batch = {**as_dict(4), "numbers": torch.tensor([1, 16, 26, 8])}
    with pytest.raises(UserError, match="16, 26 are unknown to the model; 1, 6, 7, 8 are allowed"):
        evaluator(batch)
    # and again once systems like it were planned for
    evaluator({**batch, "numbers": torch.tensor([1, 6, 7, 8])})
    with pytest.raises(UserError, match="16, 26"):
        evaluator(batch)


@pytest.mark.parametrize("number", [0, 100])
def test_a_model_of_unknown_elements_takes_those_of_the_embedding(number: int) -> None:
    evaluator = Evaluator(small_weights(), SMALL)
    assert evaluator({**as_dict(2), "numbers": torch.tensor([1, 99])}).energy.isfinite().all()
    with pytest.raises(UserError, match=f"{number} are unknown to the model; 1 to 99"):
        evaluator({**as_dict(2), "numbers": torch.tensor([1, number])})


def test_a_device_that_is_not_here_is_refused_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == torch.device("cpu")
    for name, message in {
        "gpu": "'gpu' is none; cpu, cuda",
        "mps": "'mps' is none",
        "cuda": "finds 0 NVIDIA GPUs",
    }.items():
        with pytest.raises(UserError, match=message):
            Evaluator(small_weights(), SMALL, name)
        with pytest.raises(UserError, match=message):
            choose_device(name)


def test_the_ase_calculator_refuses_a_device_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    from phasewise_studies.painn.product.ase_calculator import PainnCalculator

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="cpu, cuda and cuda:<number>"):
        PainnCalculator(device="gpu")
    with pytest.raises(UserError, match="finds 0 NVIDIA GPUs"):
        PainnCalculator(device="cuda")


def test_torchsims_own_validation_passes() -> None:
    pytest.importorskip("torch_sim", reason="needs the package torch-sim-atomistic")
    from torch_sim.models.interface import validate_model_outputs

    from phasewise_studies.painn.product.torchsim_model import PainnModel

    model = PainnModel(Evaluator(draw_weights(SMALL, 3), SMALL))
    validate_model_outputs(model, torch.device("cpu"), torch.float64)


def test_the_example_of_the_torchsim_model_runs() -> None:
    ts = pytest.importorskip("torch_sim", reason="needs the package torch-sim-atomistic")
    ase = pytest.importorskip("ase", reason="needs the package ase")
    from phasewise_studies.painn.product import torchsim_model

    positions, numbers = draw_molecule(5, 1)
    atoms = ase.Atoms(numbers.numpy(), positions.numpy(), cell=[20, 20, 20])
    model = torchsim_model.PainnModel(Evaluator(draw_weights(SMALL, 3), SMALL))
    # the docstring's own lines, for a moment of two systems
    lines = [line for line in torchsim_model.__doc__.splitlines() if line.startswith(("nve =", "state ="))]
    names = {"ts": ts, "atoms": atoms, "model": model}
    exec("\n".join(lines).replace("* 100", "* 2").replace("n_steps=1000", "n_steps=3"), names)
    assert names["state"].energy.shape == (2,)
    assert names["state"].energy.isfinite().all()


def test_the_exported_module_takes_other_numbers_of_atoms_and_edges() -> None:
    module = PotentialOnEdges(small_weights(), SMALL)

    def arguments(*counts: int) -> tuple[torch.Tensor, ...]:
        batch = as_dict(*counts)
        i, j, _ = reference.find_neighbours(as_atoms(batch), SMALL.cutoff)
        offset = torch.zeros(len(i), 3, dtype=torch.float64)
        numbers, system = batch["numbers"].long(), batch["system"].long()
        return batch["positions"], numbers, system, i, j, offset, torch.zeros(len(counts))

    a, e, b = (torch.export.Dim(name, min=2, max=100_000) for name in ("atoms", "edges", "systems"))
    shapes = ({0: a}, {0: a}, {0: a}, {0: e}, {0: e}, {0: e}, {0: b})
    exported = torch.export.export(module, arguments(9, 5), dynamic_shapes=shapes, strict=False).module()
    for counts in ((9, 5), (12, 7, 3)):
        energy, forces = exported(*arguments(*counts))
        exact = expected(as_dict(*counts))
        assert torch.allclose(energy, exact[0], atol=1e-4)
        assert torch.allclose(forces, exact[1], atol=1e-5)


def test_the_module_with_its_own_list_agrees() -> None:
    batch = as_dict(9, 5)
    module = Potential(small_weights(), SMALL, as_atoms(batch))
    found = module(**batch)
    energy, forces = expected(batch)
    assert torch.allclose(found["energy"], energy, atol=1e-4)
    assert torch.allclose(found["forces"], forces, atol=1e-5)


@pytest.mark.slow
def test_the_module_runs_in_onnx_runtime(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    pytest.importorskip("onnxscript", reason="needs the package onnxscript")
    batch = as_dict(9)
    module = Potential(small_weights(), SMALL, as_atoms(batch))
    file = str(tmp_path / "model.onnx")
    torch.onnx.export(torch.export.export(module, (), batch), f=file, dynamo=True, verbose=False)
    session = runtime.InferenceSession(file)
    fed = {one.name: batch[one.name].numpy() for one in session.get_inputs()}
    for found, exact in zip(session.run(None, fed), expected(batch), strict=True):
        assert torch.allclose(torch.from_numpy(found), exact, atol=1e-4)


def test_a_missing_checkpoint_is_named() -> None:
    with pytest.raises(UserError, match="one of them is missing"):
        Evaluator.load(Path("nowhere/model"))
