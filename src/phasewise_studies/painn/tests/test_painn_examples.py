"""What a user runs, as a user runs them: their files, from a shell, with small sizes."""

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

PRODUCT = "phasewise_studies.painn.product"
WATER = "3\n\nO 0.000 0.000 0.000\nH 0.757 0.586 0.000\nH -0.757 0.586 0.000\n"


def run_example(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`python -m phasewise_studies.painn.product.<name> ...` on the CPU."""
    command = [sys.executable, "-m", f"{PRODUCT}.{name}", *map(str, arguments)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def succeed(name: str, *arguments: str | Path) -> str:
    """What a command prints when all goes well."""
    found = run_example(name, *arguments)
    assert found.returncode == 0, found.stderr
    return found.stdout


def fail(name: str, *arguments: str | Path) -> str:
    """The line with which a command ends when its user has to cure something."""
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


def test_a_model_of_schnetpack_is_imported_and_moves_replicas_that_go_on(tmp_path: Path, water: Path) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    torch.save(write_state(SMALL), tmp_path / "state.pt")
    model = tmp_path / "out/mine.1"
    printed = succeed("examples.import_schnetpack", tmp_path / "state.pt", model)
    assert "16 features, 3 layers, 20 gaussian functions up to 5 A, with energies" in printed
    assert load_model(model)[1] == SMALL
    common = ("--model", model, "--picoseconds", "0.01", "--step", "0.1")
    printed = succeed("examples.device_md", water, "--replicas", "2", *common, "--out", tmp_path / "two.xyz")
    assert "2 x " in printed and "%/ns of the total energy" in printed
    assert "2 x " in succeed("examples.device_md", tmp_path / "two.xyz", *common)
    assert "leave it out to go on" in fail("examples.device_md", tmp_path / "two.xyz", "--replicas", "3", *common)


@pytest.mark.slow
def test_a_model_is_exported_and_loaded_again(tmp_path: Path) -> None:
    printed = succeed("examples.export_model", tmp_path / "out/painn.pt2", "--features", "16")
    assert float(printed.split()[-1]) < 1e-4


@pytest.mark.slow
def test_what_a_user_can_cure_is_one_line(tmp_path: Path, water: Path) -> None:
    pytest.importorskip("ase", reason="needs the package ase")
    assert "no such file" in fail("examples.import_schnetpack", tmp_path / "nowhere", tmp_path / "out")
    assert "is not overwritten" in fail("examples.export_model", water)
    assert "nosuch.xyz" in fail("examples.device_md", tmp_path / "nosuch.xyz")
    nowhere = ("--model", tmp_path / "nowhere")
    assert "one of them is missing" in fail("examples.export_model", tmp_path / "out.pt2", *nowhere)
    assert "no such file" in fail("examples.device_md", water, *nowhere)
    water.write_text(WATER.replace("O ", "S "))
    assert "16 are unknown to the model" in fail("examples.device_md", water)
