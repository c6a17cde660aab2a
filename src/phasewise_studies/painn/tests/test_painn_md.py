"""Dynamics of an own molecule: trajectory, log, going on, and the drift of the energy with its error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phasewise_studies.painn.product import md
from phasewise_studies.painn.product.drift import Slope, describe, fit_slope
from phasewise_studies.painn.tests.painn_molecules import SMALL
from phasewise_studies.painn.weights import draw_weights, save_model

pytest.importorskip("ase", reason="needs the package ase")
WATER = "3\n\nO 0.000 0.000 0.000\nH 0.757 0.586 0.000\nH -0.757 0.586 0.000\n"


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Runs `md` on a molecule of water with a small model."""
    (tmp_path / "water.xyz").write_text(WATER)
    save_model(tmp_path / "model", draw_weights(SMALL, 1), SMALL, None, (1, 6, 7, 8))

    def call(*options: object) -> None:
        given = [
            "md.py",
            tmp_path / "water.xyz",
            "--model",
            tmp_path / "model",
            "--no-relax",
            "--every",
            2,
            "--step",
            0.1,
        ]
        monkeypatch.setattr(sys, "argv", [*map(str, given), "--device", "cpu", *map(str, options)])
        md.main()

    return call


@pytest.mark.parametrize("thermostat", ["none", "langevin"])
def test_a_run_goes_on_after_its_last_frame(
    move: Callable[..., None], tmp_path: Path, thermostat: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from ase.io import read

    common = ("--thermostat", thermostat, "--kelvin", 200)
    move("--out", tmp_path / "whole", "--picoseconds", 0.01, *common)
    move("--out", tmp_path / "parts", "--picoseconds", 0.004, *common)
    # a frame of the trajectory that the log has not
    log = tmp_path / "parts.log"
    log.write_text("\n".join(log.read_text().splitlines()[:-1]) + "\n")
    move("--out", tmp_path / "parts", "--picoseconds", 0.01, *common)
    assert "goes on after step 40" in capsys.readouterr().out
    whole, parts = (read(tmp_path / f"{name}.traj", ":") for name in ("whole", "parts"))
    assert len(whole) == len(parts) == 51
    lines = log.read_text().splitlines()
    assert [int(line.split()[0]) for line in lines[1:]] == list(range(0, 101, 2))
    if thermostat == "none":
        assert np.allclose(whole[-1].positions, parts[-1].positions, atol=1e-6)
        assert float(lines[-1].split()[4]) == pytest.approx(parts[-1].get_total_energy(), abs=1e-6)
    assert parts[-1].get_forces().shape == (3, 3) and parts[-1].get_momenta().any()


def test_what_a_run_can_not_take_is_one_sentence(
    move: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*options: object) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            move(*options)
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    move("--out", tmp_path / "a", "--picoseconds", 0.001)
    assert "begun with kelvin 300.0, and 400.0 is given now" in refuse("--out", tmp_path / "a", "--kelvin", 400)
    assert "shorter than 2 steps" in refuse("--out", tmp_path / "b", "--picoseconds", 1e-5)
    assert "no such file" in refuse("--out", tmp_path / "b", "--model", tmp_path / "nowhere")
    (tmp_path / "b.log").write_text("mine")
    assert "is not overwritten" in refuse("--out", tmp_path / "b")
    (tmp_path / "a.traj").write_bytes(b"torn")
    assert "ase reads no trajectory" in refuse("--out", tmp_path / "a", "--picoseconds", 0.001)
    (tmp_path / "water.xyz").write_text(WATER.replace("O ", "S "))
    assert "16 are unknown to the model" in refuse("--out", tmp_path / "c", "--picoseconds", 0.001)
    (tmp_path / "water.xyz").write_text("")
    assert "water.xyz" in refuse("--out", tmp_path / "c", "--picoseconds", 0.001)


def test_the_slope_of_a_known_drift_is_found_within_its_error() -> None:
    random, times, found = np.random.default_rng(0), np.arange(1000) * 5.0, []
    for _ in range(200):
        # noise that is alike over 20 frames, as vibrations are
        noise = np.convolve(random.normal(size=1019), np.ones(20) / 20, "valid")
        slope = fit_slope(times, -300 + 2.0 * times / 1e6 + 1e-3 * noise)
        found.append(((slope.value - 2.0) / slope.error, slope.freedom))
    errors = np.array([error for error, _ in found])
    # 95 % of Student's t with 8 degrees of freedom
    assert 0.88 < float((np.abs(errors) < 2.306).mean()) < 0.99
    assert abs(float(errors.mean())) < 0.3
    assert math.isnan(fit_slope(times[:19], times[:19]).error)


@pytest.mark.parametrize(
    ("slope", "verdict"),
    [
        (Slope(value=0.01, error=0.01, freedom=8, span=1e5), "\nbelow 0.1 %/ns"),
        (Slope(value=-0.9, error=0.05, freedom=8, span=1e5), "\nABOVE 0.1 %/ns"),
        (Slope(value=0.2, error=0.2, freedom=8, span=1e5), "\ntoo short a run"),
        (Slope(value=0.01, error=0.01, freedom=8, span=50.0), "\ntoo short a run"),
        (Slope(value=math.nan, error=math.nan, freedom=0, span=0.0), "too little to fit"),
    ],
)
def test_the_drift_is_told_in_per_cent_with_its_error(slope: Slope, verdict: str) -> None:
    told = describe(slope, atoms=9, kinetic=0.5, total=-300.0)
    assert verdict in told
    if slope.value == -0.9:
        assert "-0.3 +- 0.017 %/ns of the total energy, -180 +- 10 %/ns of the kinetic" in told
        assert "-100 +- 5.6 meV/atom/ns" in told
