"""The examples as a user runs them: their files, from a shell, with small sizes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phasewise_studies.painn.tests.painn_molecules import SMALL
from phasewise_studies.painn.tests.painn_states import write_state
from phasewise_studies.painn.weights import load_model

EXAMPLES = "phasewise_studies.painn.product.examples"
WATER = "3\n\nO 0.000 0.000 0.000\nH 0.757 0.586 0.000\nH -0.757 0.586 0.000\n"


def run_example(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`python -m phasewise_studies.painn.product.examples.<name> ...` on the CPU."""
    command = [sys.executable, "-m", f"{EXAMPLES}.{name}", *map(str, arguments)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def succeed(name: str, *arguments: str | Path) -> str:
    """What an example prints when all goes well."""
    found = run_example(name, *arguments)
    assert found.returncode == 0, found.stderr
    return found.stdout


def fail(name: str, *arguments: str | Path) -> str:
    """The line with which an example ends when its user has to cure something."""
    found = run_example(name, *arguments)
    assert found.returncode == 2, found.stderr
    assert "Traceback" not in found.stderr
    return found.stderr.strip().splitlines()[-1]


@pytest.fixture
def water(tmp_path: Path) -> Path:
    """A file of a molecule of water."""
    file = tmp_path / "water.xyz"
    file.write_text(WATER)
    return file


def test_a_model_of_schnetpack_is_imported_and_moves_a_molecule(tmp_path: Path, water: Path) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    torch.save(write_state(SMALL), tmp_path / "state.pt")
    printed = succeed("import_schnetpack", tmp_path / "state.pt", tmp_path / "out/mine.1")
    assert "16 features, 3 layers, 20 gaussian functions up to 5 A, with energies" in printed
    assert load_model(tmp_path / "out/mine.1")[1] == SMALL
    assert "3 atoms, 20 steps" in succeed("ase_md", water, "--model", tmp_path / "out/mine.1", "--steps", "20")


def test_the_student_moves_a_molecule_and_many_of_its_replicas(water: Path) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    assert "3 atoms, 20 steps of 0.5 fs on cpu" in succeed("ase_md", water, "--steps", "20")
    printed = succeed("device_md", "--replicas", "2", "--picoseconds", "0.01", "--features", "16")
    assert "2 x ethanol" in printed
    assert "meV/atom/ns" in printed


@pytest.mark.slow
def test_a_model_is_exported_and_loaded_again(tmp_path: Path) -> None:
    printed = succeed("export_model", tmp_path / "out/painn.pt2", "--features", "16")
    assert float(printed.split()[-1]) < 1e-4


@pytest.mark.slow
def test_what_a_user_can_cure_is_one_line(tmp_path: Path, water: Path) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    assert "no such file" in fail("import_schnetpack", tmp_path / "nowhere", tmp_path / "out")
    assert "one of them is missing" in fail("ase_md", water, "--model", tmp_path / "nowhere")
    assert "nosuch.xyz" in fail("ase_md", tmp_path / "nosuch.xyz")
    assert "there are no frames of 'nosuch'" in fail("device_md", "--molecule", "nosuch")
    assert "one of them is missing" in fail("export_model", tmp_path / "out.pt2", "--model", tmp_path / "nowhere")
    water.write_text(WATER.replace("O ", "S "))
    assert "16 are unknown to the model" in fail("ase_md", water)
