"""Shipped frames, and a student that learns from them."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from phasewise.records.errors import UserError
from phasewise_studies.painn.data import DRUGS, load_frames
from phasewise_studies.painn.goals import TARGETS
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.product.distil import teacher
from phasewise_studies.painn.product.distil import train as trainer
from phasewise_studies.painn.product.distil.teacher import MOLECULES, Recipe, embed, label
from phasewise_studies.painn.product.distil.train import split_frames
from phasewise_studies.painn.product.trainer import fit_atomref, measure_errors, place_frames
from phasewise_studies.painn.weights import STUDENT, STUDENT_FEATURES, choose_weights, load_elements, load_model


def test_frames_of_eight_molecules_of_9_to_49_atoms_are_shipped() -> None:
    sizes = {}
    for name, recipe in MOLECULES.items():
        frames = load_frames(name)
        assert frames["positions"].shape == (recipe.frames, len(frames["numbers"]), 3)
        assert np.abs(frames["forces"].sum(1)).max() < 1e-2
        sizes[name] = len(frames["numbers"])
    assert len(sizes) >= 6
    assert min(sizes.values()) == 9
    assert max(sizes.values()) == 49


def test_the_goal_of_the_batch_names_the_sizes_of_its_molecules() -> None:
    counts = [len(load_frames(name)["numbers"]) for name in DRUGS]
    (goal,) = (goal for goal in TARGETS if goal.case == "batch-1024" and goal.metric == "items_per_s")
    assert f"of {min(counts)} to {max(counts)} atoms" in goal.name


def test_held_out_frames_are_the_last_of_each_chain() -> None:
    part, held = split_frames("ethanol")
    assert len(held["energies"]) == 100
    assert len(part["energies"]) == 900
    assert sorted(held["chain"].unique().tolist()) == [0, 1]


def test_reference_energies_explain_most_of_the_energy() -> None:
    parts = {name: split_frames(name)[0] for name in ("ethanol", "uracil")}
    atomref = fit_atomref(parts)
    for part in parts.values():
        rest = part["energies"] - atomref[part["numbers"].long()].sum()
        assert abs(float(rest.mean())) < 1e-6


def test_the_shipped_student_has_the_errors_that_are_on_record() -> None:
    weights, sizes = load_model(STUDENT)
    assert sizes.features == STUDENT_FEATURES
    held = {key: value if key == "numbers" else value[:32] for key, value in split_frames("ethanol")[1].items()}
    single = {name: tensor.float() for name, tensor in weights.items()}
    frames = place_frames(held, weights["atomref"], torch.device("cpu"))
    _, found = measure_errors(single, sizes, frames, at_a_time=8)
    recorded = json.loads(STUDENT.with_suffix(".json").read_text())["held_out"]["ethanol"]["force_mae_meV_per_A"]
    assert found == pytest.approx(recorded, rel=0.2)


def test_the_notes_quote_the_errors_of_the_student() -> None:
    notes = (STUDENT.parents[2] / "notes/student.md").read_text()
    held_out = json.loads(STUDENT.with_suffix(".json").read_text())["held_out"]
    assert held_out.keys() == MOLECULES.keys()
    for name, errors in held_out.items():
        assert f"| {name} | {errors['energy_mae_meV']} | {errors['force_mae_meV_per_A']} |" in notes


def test_the_student_lists_the_elements_of_its_molecules() -> None:
    assert load_elements(STUDENT) == tuple(sorted({int(z) for name in MOLECULES for z in load_frames(name)["numbers"]}))


def test_cases_of_full_width_take_the_student() -> None:
    weights, _ = choose_weights(STUDENT_FEATURES)
    assert torch.equal(weights["embedding"], load_model(STUDENT)[0]["embedding"])


def test_a_smiles_without_rdkit_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(UserError, match="needs rdkit"):
        embed("nosuch.xyz", seed=1)


@pytest.mark.parametrize(("molecule", "message"), [(None, "reads no molecule"), (object(), "no conformer")])
def test_a_smiles_that_rdkit_cannot_follow_is_named(
    monkeypatch: pytest.MonkeyPatch, molecule: object, message: str
) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    chem = ModuleType("rdkit.Chem")
    chem.MolFromSmiles, chem.AddHs = lambda smiles: molecule, lambda parsed: parsed
    chem.AllChem = SimpleNamespace(EmbedMolecule=lambda molecule, randomSeed: -1)
    rdkit = ModuleType("rdkit")
    rdkit.Chem = chem
    monkeypatch.setitem(sys.modules, "rdkit", rdkit)
    monkeypatch.setitem(sys.modules, "rdkit.Chem", chem)
    with pytest.raises(UserError, match=f"nosuch.xyz: .*{message}"):
        embed("nosuch.xyz", seed=1)


def test_a_molecule_without_a_recipe_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        teacher.main(["nosuch"])
    assert ended.value.code == 2
    assert "nosuch: there is no recipe of it; choose among ethanol" in capsys.readouterr().err


def test_the_trainer_asks_where_to_write(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--steps", "1"])
    monkeypatch.setattr(trainer, "train", lambda *args, **options: pytest.fail("it would have overwritten the student"))
    with pytest.raises(SystemExit) as ended:
        trainer.main()
    assert ended.value.code == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.slow
def test_training_lowers_the_error_and_writes_a_checkpoint(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m"
    options = ["--molecules", "ethanol", "--features", "8", "--each", "2", "--steps", "60", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["train.py", *options, "--out", str(out)])
    trainer.main()
    found = json.loads(out.with_suffix(".json").read_text())["held_out"]["ethanol"]
    assert found["force_mae_meV_per_A"] < found["before"]["force_mae_meV_per_A"]
    weights, again = load_model(out)
    assert again == Sizes(features=8)
    assert weights["atomref"][8] < -1
    assert load_elements(out) == (1, 6, 8)
    trainer.main()
    assert "this run is done" in capsys.readouterr().out


@pytest.mark.slow
def test_the_teacher_labels_frames_whose_forces_are_slopes_of_its_energy() -> None:
    pytest.importorskip("tblite", reason="needs the package tblite")
    pytest.importorskip("rdkit", reason="needs the package rdkit")
    frames = label("water", Recipe("O", frames=2))
    assert frames["positions"].shape == (2, 3, 3)
    assert np.isfinite(frames["forces"]).all()
    assert frames["energies"].max() < -100
