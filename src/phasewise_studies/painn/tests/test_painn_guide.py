"""The path of a chemist, as README and guide tell it: every command and block of Python, in their order, at small settings, on a CPU."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phasewise_studies.painn.data import load_frames
from phasewise_studies.painn.tests.painn_molecules import SMALL
from phasewise_studies.painn.tests.painn_states import write_state
from phasewise_studies.painn.weights import load_model
from phasewise_studies.testing import RIGHT

STUDY = Path(__file__).parents[1]
PAGES = ("notes/guide.md", "README.md")
# what makes a command small; of an option that is given twice the last one counts
SMALLER = {
    "product.md": "--step 0.25 --every 2 --picoseconds",
    "product.fine_tune": "--steps 4 --each 1 --save-every 2",
    "product.distil.train": "--steps 2 --each 1 --features 8 --molecules ethanol",
    "product.examples.device_md": "--picoseconds 0.01",
    "product.examples.export_model": "--features 16",
    "product.examples.import_schnetpack": "",
}
# what a machine without a GPU answers to these in one sentence
NEEDS_GPU = ("kernels.launch_times",)


def write_own_frames(path: Path, scale: float = 1.0, zero: float = 0.0, count: int = 20) -> None:
    """Frames of ethanol as another teacher would label them: `scale` times as stiff, with another zero of energy."""
    ase = pytest.importorskip("ase", reason="needs the package ase")
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.io import write

    frames, found = load_frames("ethanol"), []
    for index in range(count):
        atoms = ase.Atoms(frames["numbers"], frames["positions"][index].astype(float))
        energy, forces = scale * float(frames["energies"][index]) + zero, scale * frames["forces"][index].astype(float)
        atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=forces)
        found.append(atoms)
    write(path, found)


def list_commands(page: str) -> list[list[str]]:
    """Arguments of every indented command of a page, without comments."""
    lines = re.findall(r"^    ((?:python -m|phasewise) .*)$", (STUDY / page).read_text(), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def make_small(command: list[str], seen: dict[str, int]) -> list[str]:
    """The same command on a few steps. `seen` counts runs by their `--out`: each that goes on is as much longer."""
    name = command[2].removeprefix("phasewise_studies.painn.")
    extra = shlex.split(SMALLER.get(name, ""))
    if name == "product.md":
        out = command[command.index("--out") + 1]
        seen[out] = seen.get(out, 0) + 1
        extra.append(str(0.01 * seen[out]))
    if "--replicas" in command:
        extra += ["--replicas", "2"]
    return [sys.executable, *command[1:], *extra]


def run(command: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(STUDY.parents[1]), **more}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)


def test_the_pages_name_the_commands_that_are_made_small() -> None:
    named = {c[2].removeprefix("phasewise_studies.painn.") for p in PAGES for c in list_commands(p) if c[0] == "python"}
    assert named == SMALLER.keys() | set(NEEDS_GPU)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs(page: str, tmp_path: Path) -> None:
    write_own_frames(tmp_path / "own.xyz", 1.1, -4000)
    (tmp_path / "my_molecule.xyz").write_text("3\n\nO 0.0 0.0 0.0\nH 0.757 0.586 0.0\nH -0.757 0.586 0.0\n")
    torch.save(write_state(SMALL), tmp_path / "state.pt")
    seen: dict[str, int] = {}
    printed = ""
    for command in list_commands(page):
        if command[0] == "phasewise":
            # it takes the lock of the whole machine, and finds `painn` by the project that it stands in
            done = run([sys.executable, "-m", *command], STUDY.parents[2], PHASEWISE_LOCK_DIR=str(tmp_path))
            assert done.returncode in RIGHT, done.stderr
            assert "03-analytic-forces aspirin: gate pass" in done.stdout + done.stderr
            continue
        done = run(make_small(command, seen), tmp_path)
        if command[2].endswith(NEEDS_GPU):
            assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
            continue
        assert done.returncode == 0, (command, done.stderr)
        printed += done.stdout
    for block in re.findall(r"```python\n(.*?)```", (STUDY / page).read_text(), re.DOTALL):
        done = run([sys.executable, "-c", block], tmp_path)
        assert done.returncode == 0, done.stderr
    held = json.loads((tmp_path / "out/mine.json").read_text())["held_out"]["C2H6O"]
    assert held["frames"] == 2 and held["before"]["force_mae_meV_per_A"] > 0
    assert load_model(tmp_path / "out/mine")[1].features == 128
    assert load_model(tmp_path / "out/theirs")[1] == SMALL
    assert "%/ns of the total energy" in printed and "C2H6O, 2 frames held out" in printed
    if page == "notes/guide.md":
        assert "goes on after step 40" in printed
