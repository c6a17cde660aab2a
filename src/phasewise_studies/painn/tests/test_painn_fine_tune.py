"""Training on own frames: it learns, goes on bit for bit after a stop, overwrites nothing, and names what is wrong with its frames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from phasewise_studies.painn.product import fine_tune, training_run
from phasewise_studies.painn.tests.painn_molecules import SMALL
from phasewise_studies.painn.tests.test_painn_guide import write_own_frames
from phasewise_studies.painn.weights import STUDENT, draw_weights, load_model, save_model

pytest.importorskip("ase", reason="needs the package ase")
HARTREE, BOHR, KCAL = 27.211386, 0.529177, 0.0433641


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A small checkpoint that knows H, C, N and O."""
    save_model(tmp_path / "base", draw_weights(SMALL, 1), SMALL, None, (1, 6, 7, 8))
    return tmp_path / "base"


@pytest.fixture
def tune(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Runs `fine_tune` with these options, on the CPU."""

    def call(*options: str | Path) -> None:
        monkeypatch.setattr(sys, "argv", ["fine_tune.py", "--device", "cpu", *map(str, options)])
        fine_tune.main()

    return call


@pytest.fixture
def refuse(tune: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The sentence with which it ends."""

    def call(*options: str | Path) -> str:
        with pytest.raises(SystemExit) as ended:
            tune(*options)
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return call


def test_it_learns_another_teacher_with_another_zero_of_energy(
    tune: Callable[..., None], tmp_path: Path, base: Path
) -> None:
    write_own_frames(tmp_path / "own.xyz", 1.0, -4000, count=60)
    believed = ("--energy-unit", "eV", "--force-unit", "eV/Angstrom")
    out = tmp_path / "out/mine"
    tune("--frames", tmp_path / "own.xyz", "--from", base, "--out", out, "--steps", 60, "--rate", 3e-3, *believed)
    found = training_run.read_json(out.with_suffix(".json"))["held_out"]["C2H6O"]
    assert found["frames"] == 6
    assert found["force_mae_meV_per_A"] < 0.8 * found["before"]["force_mae_meV_per_A"]
    assert load_model(out)[0]["atomref"][6] < -100


def test_a_run_that_was_stopped_goes_on_bit_for_bit_and_one_that_is_done_stays(
    tune: Callable[..., None], refuse: Callable[..., str], tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write_own_frames(tmp_path / "own.xyz")
    common = ["--frames", tmp_path / "own.xyz", "--from", base, "--energy-unit", "eV", "--force-unit", "eV/Angstrom",
              "--steps", 12, "--save-every", 5]  # fmt: skip
    tune(*common, "--out", tmp_path / "whole")
    save = training_run.save_progress

    def save_and_stop(path: Path, trainer: object, settings: object, step: int) -> None:
        save(path, trainer, settings, step)
        raise KeyboardInterrupt

    monkeypatch.setattr(training_run, "save_progress", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        tune(*common, "--out", tmp_path / "parts")
    monkeypatch.setattr(training_run, "save_progress", save)
    assert (tmp_path / "parts.resume.safetensors").exists() and not (tmp_path / "parts.json").exists()
    assert "begun with rate 0.0005, and 0.001 is given now" in refuse(
        *common, "--out", tmp_path / "parts", "--rate", 1e-3
    )
    tune(*common, "--out", tmp_path / "parts")
    assert "goes on after step 5 of 12" in capsys.readouterr().out
    whole, parts = load_model(tmp_path / "whole")[0], load_model(tmp_path / "parts")[0]
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert not (tmp_path / "parts.resume.safetensors").exists()

    before = (tmp_path / "parts.safetensors").read_bytes()
    tune(*common, "--out", tmp_path / "parts")
    assert "this run is done" in capsys.readouterr().out
    assert "another --out" in refuse(*common, "--out", tmp_path / "parts", "--seed", 5)
    assert (tmp_path / "parts.safetensors").read_bytes() == before
    assert "is not overwritten" in refuse(*common, "--out", base)


def change(path: Path, change_line: Callable[[str], str]) -> None:
    path.write_text("\n".join(change_line(line) for line in path.read_text().splitlines()) + "\n")


@pytest.mark.parametrize(
    ("change_line", "message"),
    [
        (lambda line: line.replace("C  ", "S  "), "frame 0 (from 0) has S, which"),
        (lambda line: line.replace("energy=", "total="), "has no energy; it has forces, total: label it, or name the key with --energy-key"),
        (lambda line: line.replace(":forces:", ":pull:"), "has no forces; it has energy, pull: label it, or name the key with --forces-key"),
        (lambda line: line.replace('pbc="F F F"', 'Lattice="9 0 0 0 9 0 0 0 9" pbc="T T T"'), "is periodic"),
        (lambda line: line.replace("energy=-", "energy=nan #"), "finite"),
        (lambda line: line.replace("9", "x") if line.strip() == "9" else line, "ase reads no frames"),
    ],
)  # fmt: skip
def test_frames_that_cannot_be_trained_on_are_named(
    refuse: Callable[..., str], tmp_path: Path, base: Path, change_line: Callable[[str], str], message: str
) -> None:
    own = tmp_path / "own.xyz"
    write_own_frames(own, count=2)
    change(own, change_line)
    line = refuse("--frames", own, "--from", base, "--out", tmp_path / "out")
    assert message in line and str(own) in line


def test_other_inputs_that_are_wrong_are_named(refuse: Callable[..., str], tmp_path: Path, base: Path) -> None:
    own = tmp_path / "own.xyz"
    common = ("--from", base, "--out", tmp_path / "out")
    assert "there is no such file" in refuse("--frames", own, *common)
    write_own_frames(own, count=1)
    assert "no molecule has two in one file" in refuse("--frames", own, *common)
    assert "--force-unit: 'N' is none" in refuse("--frames", own, *common, "--force-unit", "N")
    assert "one of them is missing" in refuse(
        "--frames", own, "--from", tmp_path / "nowhere", "--out", tmp_path / "out"
    )
    assert "device: 'tpu'" in refuse("--frames", own, *common, "--device", "tpu")


@pytest.mark.parametrize(
    ("energy", "forces", "length", "message"),
    [
        (1 / KCAL, 1 / KCAL, 1.0, "as if in kcal/mol/Angstrom"),
        (1.0, BOHR / HARTREE, 1.0, "as if in Hartree/Bohr"),
        (1 / HARTREE, 1.0, 1.0, "as if in Hartree;"),
        (1.0, 1.0, 1 / BOHR, "as if in Bohr"),
        (1.0, 1.0, 0.1, "as if in nm"),
    ],
)
def test_labels_in_other_units_are_refused_and_named(
    refuse: Callable[..., str], tmp_path: Path, energy: float, forces: float, length: float, message: str
) -> None:
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.io import read, write

    own = tmp_path / "own.xyz"
    write_own_frames(own, count=8)
    frames = read(own, ":")
    for atoms in frames:
        labels = {"energy": energy * atoms.get_potential_energy(), "forces": forces * atoms.get_forces()}
        atoms.positions *= length
        atoms.calc = SinglePointCalculator(atoms, **labels)
    write(own, frames)
    assert message in refuse("--frames", own, "--from", STUDENT, "--out", tmp_path / "out")
