"""Every command of the README, on a CPU at small settings, and what each says of a wrong input."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.closed_form import couple_closed, make_tables
from phasewise_studies.spectral_node.flow import fold
from phasewise_studies.spectral_node.product import cli, run_folder
from phasewise_studies.spectral_node.product.fit import Settings, fit
from phasewise_studies.spectral_node.product.leave_one_out import predict_spectra
from phasewise_studies.spectral_node.product.spectrum import STEPS
from phasewise_studies.spectral_node.spectra_file import read_spectra, write_spectra
from phasewise_studies.testing import RIGHT

README = Path(__file__).parents[1] / "README.md"
CPU = torch.device("cpu")
MODULE = "phasewise_studies.spectral_node.product.cli"
# what makes a training of the README one of seconds
SMALL = {"--every": "100", "--epochs": "3", "--widths": "8 8"}


def read_commands() -> list[str]:
    """The lines of the README's second block, without comments."""
    block = re.search(r"### Your own spectra\n.*?```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert block
    return [line.partition("#")[0].strip() for line in block[1].splitlines()]


def shrink(command: str) -> str:
    """The same command at small settings."""
    if re.search(r" (train|evaluate) ", command):
        for option, value in SMALL.items():
            command = re.sub(rf" {option} [\d ]*\d", "", command) + f" {option} {value}"
    return command


def run(*arguments: object, code: int = 0) -> str:
    """The output of the command line in this process."""
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def write_example(path: Path, *, every: int = 100) -> Path:
    write_spectra(path, read_spectra(data.REAL).thin(every))
    return path


def train(data_file: Path, out: Path, epochs: int, *more: object, code: int = 0) -> str:
    return run(
        "train", data_file, "--out", out, "--epochs", epochs, "--widths", 8, 8, "--device", "cpu", *more, code=code
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_of_the_readme_runs_in_order(tmp_path: Path) -> None:
    commands = read_commands()
    verbs = [shlex.split(command)[3] for command in commands if MODULE in command]
    assert verbs == ["example", "train", "train", "predict", "evaluate", "export"]
    for command in commands:
        words = shlex.split(shrink(command))
        assert words[0] == "python"
        done = subprocess.run([sys.executable, *words[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
    spectra = read_spectra(tmp_path / "glucose.csv")
    with np.load(tmp_path / "spectra.npz") as found:
        assert found["absorbance"].shape == (33, 7) and np.isfinite(found["absorbance"]).all()
    for form in ("torch-export", "onnx", "int8", "pruned", "distilled"):
        folder = tmp_path / "exported" / form
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["largest_error"] <= manifest["gate"] and (folder / "infer.py").is_file()
        assert manifest["to"] == float(spectra.concentrations[-1])
    # the exported model and `predict` say the same of the networks that were trained
    np.savez(tmp_path / "in.npz", concentration=np.array([5.0, 7.5, 20.0], dtype=np.float32))
    lines = (tmp_path / "predicted.csv").read_text().splitlines()[1:]
    told = np.array([[float(cell) for cell in line.split(",")[1:]] for line in lines])
    spread = float(spectra.absorbance.std())
    for form in ("torch-export", "onnx", "int8", "pruned", "distilled"):
        folder = tmp_path / "exported" / form
        # -I: no PYTHONPATH, no current folder
        words = [sys.executable, "-I", folder / "infer.py", "in.npz", "out.npz"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        gate = json.loads((folder / "manifest.json").read_text())["gate"]
        with np.load(tmp_path / "out.npz") as found:
            assert np.abs(found["absorbance"] - told).max() < gate * spread


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_that_measures_runs_too(tmp_path: Path, repository: Path) -> None:
    (command,) = re.findall(r"^python (-m phasewise .*?) *#", README.read_text(), re.MULTILINE)
    done = subprocess.run(
        # it takes the lock of the whole machine
        [sys.executable, *shlex.split(command)], cwd=repository, env={**os.environ, "PHASEWISE_LOCK_DIR": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in RIGHT, done.stdout + done.stderr
    assert "16-closed-form couple: gate pass" in done.stdout + done.stderr


def test_a_training_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    file = write_example(tmp_path / "glucose.csv")
    train(file, tmp_path / "whole", 6)
    train(file, tmp_path / "parts", 2)
    assert "goes on after 2 epochs" in train(file, tmp_path / "parts", 6)
    one, other = (load_file(tmp_path / name / run_folder.CHECKPOINT) for name in ("whole", "parts"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    losses = (tmp_path / "parts" / run_folder.LOSSES).read_text().splitlines()
    assert losses[0] == "epoch,loss" and len(losses) == 7
    assert "give more --epochs" in train(file, tmp_path / "parts", 6)


def test_a_known_spectrum_is_its_own_prediction(tmp_path: Path) -> None:
    file = write_example(tmp_path / "glucose.csv")
    train(file, tmp_path / "run", 2)
    run("predict", tmp_path / "run", "10.4896", "--out", tmp_path / "p.csv")
    known = read_spectra(file)
    row = (tmp_path / "p.csv").read_text().splitlines()[1].split(",")
    exact = known.absorbance[known.concentrations == 10.4896][0]
    assert np.allclose([float(cell) for cell in row[1:]], exact, atol=1e-6)


def test_spectra_of_equal_concentration_are_averaged_and_channels_sorted(tmp_path: Path) -> None:
    file = tmp_path / "s.csv"
    file.write_text("# about\nppb,3,1\n5,30,10\n0,1,2\n5,50,20\n9,7,8\n")
    found = read_spectra(file)
    assert found.repeats == 1 and found.quantity == "ppb"
    assert found.channels.tolist() == [1, 3] and found.concentrations.tolist() == [0, 5, 9]
    assert found.absorbance.tolist() == [[2, 1], [15, 40], [8, 7]]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "there is no such file"),
        ("", "holds 0 lines"),
        ("ppb,1\n1,2\n", "no two channels"),
        ("ppb,1,b\n1,2,3\n", "line 1, column 3: 'b' is no finite number"),
        ("ppb,1,1\n1,2,3\n", "channel 1 is there twice"),
        ("ppb,1,2\n1,2,3\n2,3\n", "line 3: 2 columns where the header has 3"),
        ("ppb,1,2\n1,2,nan\n", "line 2, column 3: 'nan' is no finite number"),
        ("ppb,1,2\n1,2,3\n2,3,4\n", "2 different concentrations; give 3 or more"),
        ("ppb,1,2\n1,2,2\n2,2,2\n3,2,2\n", "all absorbances are 2"),
        (b"\xff\xfe\x00", "no text in UTF-8"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, content: str | bytes | None, told: str) -> None:
    file = tmp_path / "s.csv"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for command in (("train", file, "--out", tmp_path / "run"), ("evaluate", file)):
        output = run(*command, code=2)
        assert told in output and output.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_other_wrong_inputs_are_one_sentence_each(tmp_path: Path) -> None:
    file, place = write_example(tmp_path / "glucose.csv"), tmp_path / "run"
    assert "it holds no checkpoint" in run("predict", place, 1, "--out", tmp_path / "p.csv", code=2)
    assert "it holds no checkpoint" in run("export", place, "--into", tmp_path / "e", code=2)
    assert "it is there already" in run("example", file, code=2)
    assert "two or more must be left" in run("train", file, "--out", place, "--every", 7, code=2)
    assert "is none; cpu, cuda" in run("train", file, "--out", place, "--device", "tpu", code=2)
    run("train", file, "--out", place, "--epochs", 0, code=2)
    run("train", file, "--out", place, "--flow-rate", "nan", code=2)
    train(file, place, 1)
    assert "it was started with seed 0, now it is 1" in train(file, place, 2, "--seed", 1, code=2)
    other = write_example(tmp_path / "other.csv", every=60)
    assert "it was started with other data" in train(other, place, 2, code=2)
    assert "it was trained from 0 to 38.053" in run("predict", place, 50, "--out", tmp_path / "p.csv", code=2)
    assert "there is no such folder" in run("predict", place, 5, "--out", tmp_path / "no" / "p.csv", code=2)
    (tmp_path / "e" / "int8").mkdir(parents=True)
    assert "it is there already" in run("export", place, "--into", tmp_path / "e", "--form", "int8", code=2)
    output = train(file, tmp_path / "lost", 40, "--flow-rate", 1e30, code=2)
    assert "the networks are lost" in output and not (tmp_path / "lost" / run_folder.CHECKPOINT).exists()
    path = place / run_folder.CHECKPOINT
    path.write_bytes(path.read_bytes()[:1000])
    assert "it is cut off" in run("predict", place, 1, "--out", tmp_path / "p.csv", code=2)


def test_the_module_is_the_closed_form_from_both_sides_without_its_drift() -> None:
    spectra = data.load_real()
    known = replace(
        spectra, levels=spectra.levels[::4], table=spectra.table[::4, ::100], wavelengths=spectra.wavelengths[::100]
    )
    parameters, _ = fit(known.levels, known.wavelengths, known.table, Settings(widths=(8, 8)), epochs=20, device=CPU)
    wanted = torch.tensor([-0.9, -0.2, 0.35, 0.99], dtype=torch.float64)
    tables, flow = make_tables(parameters, known.wavelengths, 2000), fold(parameters)

    def carry(level: torch.Tensor, stop: torch.Tensor) -> torch.Tensor:
        start, goal = (c[:, None].expand(-1, len(known.wavelengths)) for c in (known.levels[level], stop))
        return couple_closed(tables, flow, start, goal, known.table[level], STEPS)[1]

    right = torch.searchsorted(known.levels.contiguous(), wanted)
    part = ((wanted - known.levels[right - 1]) / (known.levels[right] - known.levels[right - 1]))[:, None]
    expected = torch.zeros(len(wanted), len(known.wavelengths), dtype=torch.float64)
    for level, weight in ((right - 1, 1 - part), (right, part)):
        drift = carry(level, known.levels[level]) - known.table[level]
        expected += weight * (carry(level, wanted) - weight * drift)
    assert torch.allclose(predict_spectra(parameters, known, wanted), expected, atol=1e-6)
