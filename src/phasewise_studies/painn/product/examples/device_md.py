"""Many replicas of a molecule at constant energy, wholly on the device: no list, force or position visits the host.

    python -m phasewise_studies.painn.product.examples.device_md aspirin --replicas 1024 --picoseconds 100
    python -m phasewise_studies.painn.product.examples.device_md my_molecule.xyz --model out/mine --out out/replicas.xyz
    python -m phasewise_studies.painn.product.examples.device_md out/replicas.xyz --model out/mine --out out/later.xyz

`--out` is where all replicas are at the end, with their momenta; given as the molecule, such a file goes on. Replicas of a file
without momenta are heated. A trajectory in time: `product/md.py`.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.painn.data import as_atoms, draw_velocities, mass_table
from phasewise_studies.painn.dynamics import Trajectory, fit_drift, run_nve
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.product.drift import Slope, describe
from phasewise_studies.painn.product.evaluator import Evaluator, default_switches
from phasewise_studies.painn.product.files import amount, model_path, refuse_existing, whole
from phasewise_studies.painn.product.molecules import find_structures
from phasewise_studies.painn.weights import STUDENT


def make_replicas(given: argparse.Namespace) -> tuple[dict[str, Tensor], Tensor]:
    """A batch of `--replicas` copies of the frames in turn, and their velocities (A, 3) in A/fs.

    Raises:
        UserError: frames are periodic or of several molecules, or go on and are not as many as the replicas.
    """
    from ase import units

    frames = find_structures(given.molecule)
    if any(atoms.pbc.any() for atoms in frames):
        raise UserError(
            f"{given.molecule}: it is periodic; replicas of molecules are what runs here, md runs a box through ASE"
        )
    if any(not np.array_equal(atoms.numbers, frames[0].numbers) for atoms in frames):
        raise UserError(
            f"{given.molecule}: its frames are of several molecules; give a file with frames of one molecule only"
        )
    goes_on = all(atoms.has("momenta") for atoms in frames)
    count = given.replicas or (len(frames) if goes_on else 16)
    if goes_on and count != len(frames):
        raise UserError(
            f"--replicas is {count} and {given.molecule} has {len(frames)} frames with momenta; leave it out to go on with them"
        )
    chosen = [frames[index % len(frames)] for index in range(count)]
    numbers = torch.from_numpy(np.concatenate([atoms.numbers for atoms in chosen]).astype(np.int64))
    each = len(frames[0])
    batch = {
        "positions": torch.from_numpy(np.concatenate([atoms.positions for atoms in chosen])),
        "numbers": numbers,
        "system": torch.arange(count).repeat_interleave(each),
        "start": torch.arange(count + 1) * each,
    }
    if goes_on:
        return batch, torch.from_numpy(np.concatenate([atoms.get_velocities() for atoms in chosen]) * units.fs)
    generator = torch.Generator().manual_seed(given.seed)
    # each for itself: no replica may drift away from where it is
    velocities = [draw_velocities(part, given.kelvin, generator) for part in numbers.view(count, each)]
    return batch, torch.cat(velocities)


def write_end(path: Path, numbers: np.ndarray, found: Trajectory) -> None:
    """All replicas at the end, with momenta, as extended XYZ."""
    from ase import Atoms, units
    from ase.io import write

    frames: list[Any] = []
    for positions, velocities in zip(
        found.positions.cpu().numpy().reshape(-1, len(numbers), 3),
        found.velocities.cpu().numpy().reshape(-1, len(numbers), 3),
        strict=True,
    ):
        atoms = Atoms(numbers, positions)
        atoms.set_velocities(velocities / units.fs)
        frames.append(atoms)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, frames, format="extxyz")


@report_errors
def main() -> None:
    """Run, and fit the drift of the total energy."""
    parser = argparse.ArgumentParser(description="NVE dynamics of many replicas on the device")
    parser.add_argument("molecule", help="a file that ASE reads, a shipped molecule, or a SMILES")
    parser.add_argument("--model", type=model_path, default=STUDENT, help="a checkpoint, or student (default)")
    parser.add_argument("--out", type=Path, help="extended XYZ of where they are at the end")
    parser.add_argument("--replicas", type=whole, help="16, or as many as the file has that goes on")
    parser.add_argument("--picoseconds", type=amount, default=0.1)
    parser.add_argument("--step", type=amount, default=0.5, help="femtoseconds")
    parser.add_argument("--kelvin", type=amount, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="", help="by default the GPU where there is one")
    given = parser.parse_args()

    if given.out is not None:
        refuse_existing(given.out)
    device = choose_device(given.device)
    batch, drawn = make_replicas(given)
    evaluator = Evaluator.load(given.model, device)
    evaluator.check_elements(batch["numbers"])
    atoms = as_atoms({name: tensor.to(device) for name, tensor in batch.items()})
    masses = mass_table(device).index_select(0, atoms.numbers)
    # the loop records its own graph
    switches = replace(default_switches(device, 0), graph=False)
    engine = make_engine(switches, evaluator.weights, evaluator.sizes, atoms, room=1.5)
    stride = 100 if device.type == "cuda" else 10
    steps = max(3, round(1e3 * given.picoseconds / given.step / stride)) * stride
    began = time.perf_counter()
    found = run_nve(engine, atoms, drawn.to(device), masses, steps=steps, time_step=given.step, stride=stride)
    seconds = time.perf_counter() - began
    if not bool(found.total.isfinite().all()):
        raise UserError(
            f"the energy is not finite after {steps} steps, or atoms came so close that their list had no room; take a smaller "
            "--step, a lower --kelvin, or a model that was trained on such geometries"
        )
    systems, each = found.total.shape[1], int(atoms.start[1])
    print(f"{systems} x {given.molecule}, {found.times[-1] / 1e3:.3g} ps on {device} in {seconds:.1f} s")
    drift = fit_drift(found, each)
    slope = Slope(
        value=drift.slope * each / 1e3, error=drift.error * each / 1e3, freedom=systems - 1, span=float(found.times[-1])
    )
    print(describe(slope, each, float(found.kinetic.mean()), float(found.total.mean())))
    print(f"{drift.over_std:.3g} of the kinetic spread over the run; {found.reason or 'one CUDA graph a stride'}")
    if given.out is not None:
        write_end(given.out, batch["numbers"][:each].numpy(), found)
        print(f"{given.out}: {systems} replicas with their momenta")


if __name__ == "__main__":
    main()
