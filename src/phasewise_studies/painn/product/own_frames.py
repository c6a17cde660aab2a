"""Labelled frames of a user's own molecules: read through ase, put into eV and Angstrom, sorted by molecule.

Frames whose atoms have the same elements in the same order are one molecule, named by its formula. The last tenth of a molecule's
frames in each file is held out, since neighbouring frames of a trajectory are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.painn.product.molecules import read_structures

HELD_OUT = 0.1

Part = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Names of the labels: what ase calls them, or a key of its `info` and `arrays`."""

    energy: str = "energy"
    forces: str = "forces"


@dataclass(frozen=True, kw_only=True)
class Scales:
    """What one unit of the file is in Angstrom, eV, and eV/Angstrom."""

    length: float = 1.0
    energy: float = 1.0
    forces: float = 1.0


def read_frames(
    paths: Sequence[Path], known: Iterable[int], keys: Keys | None = None, scales: Scales | None = None
) -> dict[str, Part]:
    """By molecule: numbers (N,), chain (M,), positions (M, N, 3) in A, energies (M,) in eV, float64; forces (M, N, 3) in eV/A, float32.

    `known` are the atomic numbers that the model may meet; `chain` is the file that a frame is from.

    Raises:
        UserError: a file cannot be read, or a frame is periodic, lacks a label, or has an element that is not known.
    """
    keys, scales = keys or Keys(), scales or Scales()
    found: dict[tuple[int, ...], dict[str, list[Any]]] = {}
    formulas: dict[tuple[int, ...], str] = {}
    for chain, path in enumerate(paths):
        for index, atoms in enumerate(read_structures(path)):
            place = f"{path}: frame {index} (from 0)"
            check_frame(atoms, known, place)
            energy, forces = read_labels(atoms, keys, place)
            molecule = tuple(atoms.numbers.tolist())
            formulas[molecule] = atoms.get_chemical_formula()
            rows = found.setdefault(molecule, {"chain": [], "positions": [], "energies": [], "forces": []})
            rows["chain"].append(chain)
            rows["positions"].append(atoms.positions * scales.length)
            rows["energies"].append(energy * scales.energy)
            rows["forces"].append(forces * scales.forces)
    frames: dict[str, Part] = {}
    for molecule, rows in found.items():
        name = formulas[molecule]
        same = sum(1 for other in frames if other.split(" ")[0] == name)
        frames[f"{name} {same + 1}" if same else name] = {
            "numbers": torch.tensor(molecule),
            "chain": torch.tensor(rows["chain"]),
            "positions": torch.from_numpy(np.array(rows["positions"], dtype=np.float64)),
            "energies": torch.from_numpy(np.array(rows["energies"], dtype=np.float64)),
            "forces": torch.from_numpy(np.array(rows["forces"], dtype=np.float32)),
        }
    return frames


def check_frame(atoms: Any, known: Iterable[int], place: str) -> None:
    """Raise UserError for a frame that the model cannot be trained on."""
    from ase.data import chemical_symbols

    if atoms.pbc.any():
        raise UserError(
            f"{place} is periodic; molecules without a cell are what can be trained on, leave Lattice and pbc out"
        )
    known = set(known)
    if strange := sorted(set(atoms.numbers.tolist()) - known):
        names = ", ".join(chemical_symbols[z] for z in strange)
        allowed = ", ".join(chemical_symbols[z] for z in sorted(known)[:20])
        raise UserError(
            f"{place} has {names}, which the model that is started from does not know; {allowed} are allowed, leave such frames "
            "out or start from a checkpoint that knows them"
        )


def read_labels(atoms: Any, keys: Keys, place: str) -> tuple[float, np.ndarray]:
    """Energy and forces (N, 3) of a frame, in the file's units; raises UserError where one is missing or not finite."""
    results = atoms.calc.results if atoms.calc is not None else {}
    there = {**atoms.info, **atoms.arrays, **results}
    for option, name in (("--energy-key", keys.energy), ("--forces-key", keys.forces)):
        if name not in there:
            others = ", ".join(sorted(set(there) - {"numbers", "positions"})) or "nothing else"
            raise UserError(f"{place} has no {name}; it has {others}: label it, or name the key with {option}")
    try:
        energy, forces = float(there[keys.energy]), np.array(there[keys.forces], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{place}: {keys.energy} and {keys.forces} are no number and vectors ({error}); label it again"
        ) from error
    if forces.shape != (len(atoms), 3) or not (np.isfinite(energy) and np.isfinite(forces).all()):
        raise UserError(
            f"{place}: a finite energy and {len(atoms)} x 3 finite forces are needed; label it again or leave it out"
        )
    return energy, forces


def split_own(frames: Mapping[str, Part]) -> dict[str, tuple[Part, Part | None]]:
    """By molecule frames to train on and frames held out; a molecule with a single frame in a file has none held out of it.

    Raises:
        UserError: there is nothing to measure errors on.
    """
    parts: dict[str, tuple[Part, Part | None]] = {}
    for name, part in frames.items():
        held = torch.zeros(len(part["chain"]), dtype=torch.bool)
        for chain in part["chain"].unique():
            places = torch.nonzero(part["chain"] == chain)[:, 0]
            if len(places) > 1:
                held[places[-max(1, round(HELD_OUT * len(places))) :]] = True
        kept, out = (
            {key: value if key == "numbers" else value[which] for key, value in part.items()} for which in (~held, held)
        )
        parts[name] = kept, out if held.any() else None
    if all(out is None for _, out in parts.values()):
        raise UserError(
            "frames: no molecule has two in one file, so none can be held out to measure errors on; give more of at least one"
        )
    return parts
