"""Molecular dynamics of a molecule or box of your own through ASE, with trajectory, log and restart.

    python -m phasewise_studies.painn.product.md my_molecule.xyz --out out/md
    python -m phasewise_studies.painn.product.md my_molecule.xyz --out out/md --picoseconds 100 --model out/mine

What moves is a file that ASE reads (its last frame), a shipped molecule such as ethanol, or a SMILES (needs rdkit). It writes
`<out>.traj` (ASE's, with energies, forces and momenta), `<out>.log` and `<out>.json`; the same command goes on after the last frame
of the trajectory, and a larger `--picoseconds` makes a run longer. Many replicas on a GPU: `examples/device_md.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phasewise.records.errors import UserError, report_errors
from phasewise.store import write_bytes
from phasewise_studies.painn.data import draw_velocities
from phasewise_studies.painn.product.drift import describe, fit_slope
from phasewise_studies.painn.product.files import (
    amount,
    beside,
    compare_settings,
    digest_model,
    model_path,
    read_json,
    refuse_existing,
    whole,
)
from phasewise_studies.painn.product.molecules import find_structures
from phasewise_studies.painn.weights import STUDENT

HEADER = f"# {'step':>10} {'time_fs':>14} {'potential_eV':>18} {'kinetic_eV':>14} {'total_eV':>18} {'kelvin':>10}"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One frame: its step, potential and kinetic energy in eV, temperature in K."""

    step: int
    potential: float
    kinetic: float
    kelvin: float

    @property
    def total(self) -> float:
        return self.potential + self.kinetic

    def line(self, time_step: float) -> str:
        return (
            f"{self.step:12d} {self.step * time_step:14.3f} {self.potential:18.8f} {self.kinetic:14.8f} {self.total:18.8f} "
            f"{self.kelvin:10.2f}"
        )


def read_row(atoms: Any, step: int) -> Row:
    """What the log keeps of a frame."""
    return Row(
        step=step, potential=float(atoms.get_potential_energy()), kinetic=float(atoms.get_kinetic_energy()),
        kelvin=float(atoms.get_temperature()),
    )  # fmt: skip


def read_options() -> argparse.Namespace:
    """What was given on the command line."""
    parser = argparse.ArgumentParser(description="Dynamics of a molecule or box of your own with a PaiNN checkpoint")
    parser.add_argument("molecule", help="a file that ASE reads, a shipped molecule, or a SMILES")
    parser.add_argument("--model", type=model_path, default=STUDENT, help="a checkpoint, or student (default)")
    parser.add_argument("--out", type=Path, required=True, help="name of .traj, .log and .json")
    parser.add_argument("--picoseconds", type=amount, default=1.0)
    parser.add_argument("--step", type=amount, default=0.5, help="femtoseconds")
    parser.add_argument("--every", type=whole, default=10, help="steps between frames of trajectory and log")
    parser.add_argument("--kelvin", type=amount, default=300.0)
    parser.add_argument("--thermostat", choices=("none", "langevin"), default="none")
    parser.add_argument("--friction", type=amount, default=0.01, help="of the thermostat, 1/fs")
    parser.add_argument("--relax", action=argparse.BooleanOptionalAction, default=True, help="to 0.05 eV/A first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="", help="by default the GPU where there is one")
    return parser.parse_args()


def list_settings(given: argparse.Namespace, atoms: Any) -> dict[str, Any]:
    """What a run must be given again to go on; its length is not among it."""
    start = atoms.numbers.tobytes() + atoms.positions.tobytes() + np.array(atoms.cell).tobytes()
    names = ("step", "every", "kelvin", "thermostat", "friction", "relax", "seed")
    return {
        "molecule": hashlib.sha256(start).hexdigest()[:16],
        "model": digest_model(given.model),
        **{name: getattr(given, name) for name in names},
    }


def begin(given: argparse.Namespace, atoms: Any) -> None:
    """Relax if asked for, and heat; velocities of a file are not used."""
    from ase import units
    from ase.optimize import BFGS

    if given.relax:
        BFGS(atoms, logfile=None).run(fmax=0.05, steps=200)
    generator = torch.Generator().manual_seed(given.seed)
    velocities = draw_velocities(torch.from_numpy(atoms.numbers.astype(np.int64)), given.kelvin, generator)
    atoms.set_velocities(velocities.numpy() / units.fs)


def take_up(given: argparse.Namespace, atoms: Any, trajectory: Path) -> list[Row]:
    """Put `atoms` where the trajectory ends; its rows, none where there is no frame yet."""
    from ase.io.trajectory import Trajectory
    from ase.io.ulm import InvalidULMFileError

    if not trajectory.exists():
        return []
    try:
        with Trajectory(trajectory) as frames:
            rows = [read_row(frame, index * given.every) for index, frame in enumerate(frames)]
            last = frames[-1] if rows else None
    except (InvalidULMFileError, OSError, ValueError) as error:
        raise UserError(
            f"{trajectory}: ase reads no trajectory from it ({error}); delete it to begin again, or name another --out"
        ) from error
    if last is not None:
        atoms.set_positions(last.positions)
        atoms.set_momenta(last.get_momenta())
    return rows


def run_frames(given: argparse.Namespace, atoms: Any, first: int) -> Iterator[Row]:
    """Rows after every `--every` steps, from frame `first` on, without end."""
    from ase import units
    from ase.md.langevin import Langevin
    from ase.md.verlet import VelocityVerlet

    dynamics: Any
    if given.thermostat == "langevin":
        # noise of its own for what follows each start
        random = np.random.default_rng([given.seed, first])
        # without holding the centre of mass, which would bend the distribution
        dynamics = Langevin(
            atoms, given.step * units.fs, temperature_K=given.kelvin, friction=given.friction / units.fs, rng=random,
            fixcm=False,
        )  # fmt: skip
    else:
        dynamics = VelocityVerlet(atoms, given.step * units.fs)
    frame = first
    while True:
        dynamics.run(given.every)
        row = read_row(atoms, frame * given.every)
        if not math.isfinite(row.total):
            raise UserError(
                f"the energy is not finite at step {row.step}; the frames before it are kept: take a smaller --step, a lower "
                "--kelvin, or a model that was trained on such geometries"
            )
        yield row
        frame += 1


def report_run(given: argparse.Namespace, atoms: Any, rows: list[Row]) -> None:
    """How long, how warm, and how well the energy was kept."""
    device = atoms.calc.evaluator.device
    print(f"{len(atoms)} atoms, {rows[-1].step} steps of {given.step:g} fs on {device}")
    totals, kinetic = np.array([row.total for row in rows]), float(np.mean([row.kinetic for row in rows]))
    print(f"temperature {np.mean([row.kelvin for row in rows]):.1f} K on average")
    if given.thermostat == "none":
        print(f"total energy {totals[0]:.4f} eV, spread {1e3 * float(np.std(totals)):.3f} meV")
        slope = fit_slope(np.array([row.step * given.step for row in rows]), totals)
        print(describe(slope, len(atoms), kinetic, float(totals.mean())))
    else:
        print("no drift of the energy: the thermostat takes and gives it")
    print(f"{beside(given.out, '.traj')}, .log and .json; the same command with more --picoseconds goes on")
    for reason in atoms.calc.evaluator.fallbacks:
        print(f"not as asked: {reason}")


@report_errors
def main() -> None:
    """Begin or go on, and report."""
    given = read_options()
    frames = round(1e3 * given.picoseconds / given.step / given.every)
    if frames < 1:
        raise UserError(
            f"--picoseconds {given.picoseconds:g} is shorter than {given.every} steps of {given.step:g} fs; give more, or a "
            "smaller --every"
        )
    atoms = find_structures(given.molecule)[-1]
    atoms.set_constraint()
    settings = list_settings(given, atoms)
    trajectory, log, description = (beside(given.out, ending) for ending in (".traj", ".log", ".json"))
    if description.exists():
        compare_settings(read_json(description), settings, description)
    else:
        refuse_existing(trajectory, log)

    # imports ase, which is there by now
    from phasewise_studies.painn.product.ase_calculator import PainnCalculator

    atoms.calc = PainnCalculator(given.model, given.device)
    rows = take_up(given, atoms, trajectory)
    if rows:
        print(f"{trajectory}: goes on after step {rows[-1].step}")
    else:
        begin(given, atoms)
        write_bytes((json.dumps(settings, indent=1) + "\n").encode(), description)
    move(given, atoms, rows, frames)
    report_run(given, atoms, rows)


def move(given: argparse.Namespace, atoms: Any, rows: list[Row], frames: int) -> None:
    """Run until frame `frames`; every frame is in trajectory and log before the next begins."""
    from ase.io.trajectory import Trajectory

    with (
        closing(Trajectory(beside(given.out, ".traj"), "a" if rows else "w")) as trajectory,
        beside(given.out, ".log").open("w") as log,
    ):

        def keep(row: Row) -> None:
            rows.append(row)
            trajectory.write(atoms)
            print(row.line(given.step), file=log, flush=True)

        # written anew: a run that was killed may have left it a frame short
        print("\n".join([HEADER, *(row.line(given.step) for row in rows)]), file=log, flush=True)
        if not rows:
            keep(read_row(atoms, 0))
        moving = run_frames(given, atoms, len(rows))
        while len(rows) <= frames:
            keep(next(moving))


if __name__ == "__main__":
    main()
