"""The systems of the cases: molecules from the teacher's frames, ice Ih, and boxes of water.

Every system is a canonical batch: positions (A, 3), cell (B, 3, 3) float64; numbers, system (A,), start (B + 1,) int64; for an
NVE step velocities (A, 3) in A/fs. Molecules have no cell.
"""

from __future__ import annotations

import functools
import itertools
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phasewise import Shape
from phasewise.records.errors import UserError
from phasewise_studies.painn.inputs import check_names, check_shapes
from phasewise_studies.painn.layout import Atoms
from phasewise_studies.painn.masses import MASSES

FRAMES = Path(__file__).parent / "product" / "distil" / "frames"

# (eV/A)/dalton in A/fs^2, and k_B in eV/K: CODATA 2018
ACCELERATION = 9.648533212e-3
BOLTZMANN = 8.617333262e-5
# molecules of 20 to 49 atoms, whose frames are shipped
DRUGS = ("paracetamol", "aspirin", "alanine-dipeptide", "caffeine", "ibuprofen", "testosterone")

Batch = dict[str, Tensor]


def make_batch(shape: Shape, seed: int) -> Batch:
    """The systems that a shape asks for; other seeds give other frames of the same systems."""
    generator = torch.Generator().manual_seed(seed)
    if shape.system == "ice":
        batch = make_ice(shape.repeat, generator)
    elif shape.system == "water":
        batch = make_water(shape.repeat, generator)
    elif shape.system == "clusters":
        batch = make_clusters(shape.count, generator)
    else:
        batch = make_molecules(molecule_names(shape), generator)
    if shape.get("moving", False):
        batch["velocities"] = draw_velocities(batch["numbers"], 250.0, generator)
    return batch


def molecule_names(shape: Shape) -> tuple[str, ...]:
    """Names of the molecules of a batch: one kind, or the larger ones in turn."""
    kinds = DRUGS if shape.system == "drugs" else (shape.system,)
    return tuple(itertools.islice(itertools.cycle(kinds), shape.count))


def as_atoms(batch: Batch) -> Atoms:
    """A batch as `Atoms`, on whatever device it is; without a cell nothing is periodic.

    Raises:
        UserError: a tensor is missing, or has the wrong number of rows.
    """
    check_names(batch)
    atoms = Atoms(
        positions=batch["positions"],
        numbers=batch["numbers"].int(),
        system=batch["system"].int(),
        start=batch["start"].int(),
        cell=batch.get("cell", None),
    )
    check_shapes(atoms)
    return atoms


@functools.cache
def load_frames(name: str) -> dict[str, np.ndarray]:
    """numbers (N,), chain (M,), positions (M, N, 3), energies (M,), forces (M, N, 3) of one molecule."""
    path = FRAMES / f"{name}.npz"
    if not path.exists():
        known = ", ".join(sorted(found.stem for found in FRAMES.glob("*.npz")))
        raise UserError(f"there are no frames of {name!r}; choose among {known}, or label it with distil.teacher")
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def make_molecules(names: tuple[str, ...], generator: torch.Generator) -> Batch:
    """One frame of each named molecule."""
    positions, numbers = [], []
    for name in names:
        frames = load_frames(name)
        frame = int(torch.randint(0, len(frames["positions"]), (), generator=generator))
        positions.append(torch.from_numpy(frames["positions"][frame]).double())
        numbers.append(torch.from_numpy(frames["numbers"]).long())
    counts = torch.tensor([len(part) for part in numbers])
    return {
        "positions": torch.cat(positions),
        "numbers": torch.cat(numbers),
        "system": torch.repeat_interleave(torch.arange(len(names)), counts),
        "start": torch.nn.functional.pad(counts.cumsum(0), (1, 0)),
    }


def make_clusters(count: int, generator: torch.Generator) -> Batch:
    """Systems of 64 atoms on a shaken grid of 1.6 A, for lists alone."""
    grid = torch.cartesian_prod(*(torch.arange(4, dtype=torch.float64),) * 3) * 1.6
    noise = torch.randn(count, 64, 3, dtype=torch.float64, generator=generator)
    return {
        "positions": (grid + 0.1 * noise).reshape(-1, 3),
        "numbers": torch.full((64 * count,), 6),
        "system": torch.repeat_interleave(torch.arange(count), 64),
        "start": torch.arange(count + 1) * 64,
    }


def make_ice(repeat: str, generator: torch.Generator) -> Batch:
    """Ice Ih: the 8-molecule orthorhombic cell, repeated as in "6x3x3", with 0.05 A of disorder.

    O-O distances of 2.75 A as at 0 C (a = 4.497, c = 7.321 A; Kuhs and Lehmann 1986); protons obey the ice rules, and are the same in
    every cell.
    """
    cell = torch.tensor([4.497, 4.497 * 3**0.5, 7.321], dtype=torch.float64)
    counts = [int(part) for part in repeat.split("x")]
    numbers, positions = _ice_cell(cell)
    steps = torch.cartesian_prod(*(torch.arange(n) for n in counts)).double() * cell
    positions = (steps[:, None] + positions).reshape(-1, 3)
    noise = torch.randn(positions.shape, dtype=torch.float64, generator=generator)
    return _box(positions + 0.05 * noise, numbers.repeat(len(steps)), cell * torch.tensor(counts))


def _ice_cell(cell: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers and positions of 8 molecules of ice Ih."""
    # the four sites of wurtzite's oxygen lattice and the same shifted by half of a and b
    z = 1 / 16
    sites = [(0, 0, z), (0, 1 / 3, -z), (0, 1 / 3, 1 / 2 + z), (0, 0, 1 / 2 - z)]
    shifted = [(x + 1 / 2, y + 1 / 2, w) for x, y, w in sites]
    oxygen = torch.tensor(sites + shifted, dtype=torch.float64) * cell
    bonds = []
    for a, b in itertools.combinations(range(8), 2):
        r = oxygen[b] - oxygen[a]
        for image in itertools.product((-1, 0, 1), repeat=3):
            vector = r + torch.tensor(image) * cell
            if vector.norm() < 3.0:
                bonds.append((a, b, vector))
    assert len(bonds) == 16, "every oxygen has four neighbours"
    # each proton to one end of its bond so that every oxygen has two: the first of the 2^16 ways
    for way in itertools.product((0, 1), repeat=16):
        owners = [bond[end] for bond, end in zip(bonds, way, strict=True)]
        if all(owners.count(oxygen_) == 2 for oxygen_ in range(8)):
            break
    hydrogen = [
        oxygen[bond[end]] + (1 if end == 0 else -1) * bond[2] / bond[2].norm() * 0.97
        for bond, end in zip(bonds, way, strict=True)
    ]
    return torch.tensor([8] * 8 + [1] * 16), torch.cat((oxygen, torch.stack(hydrogen)))


def make_water(repeat: str, generator: torch.Generator) -> Batch:
    """Water at 1 g/cm^3: a molecule at each point of a grid such as "15x15x15", turned at random, 0.1 A of disorder."""
    counts = [int(part) for part in repeat.split("x")]
    # 18.015 dalton a molecule at 0.997 g/cm^3
    spacing = 3.107
    centres = torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in counts)) * spacing
    half = 0.5 * 104.52 * torch.pi / 180
    molecule = torch.tensor(
        [
            [0, 0, 0],
            [0.9572 * np.sin(half), 0.9572 * np.cos(half), 0],
            [-0.9572 * np.sin(half), 0.9572 * np.cos(half), 0],
        ],
        dtype=torch.float64,
    )
    noise = torch.randn(len(centres), 7, dtype=torch.float64, generator=generator)
    turned = molecule @ rotation_matrices(noise[:, :4]).transpose(1, 2)
    positions = (centres + 0.1 * noise[:, 4:])[:, None] + turned
    side = torch.tensor(counts, dtype=torch.float64) * spacing
    return _box(positions.reshape(-1, 3), torch.tensor([8, 1, 1]).repeat(len(centres)), side)


def rotation_matrices(quaternions: Tensor) -> Tensor:
    """(N, 4) of any length -> (N, 3, 3)."""
    w, x, y, z = (quaternions / quaternions.norm(dim=1, keepdim=True)).unbind(1)
    rows = [
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    ]
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def draw_velocities(numbers: Tensor, kelvin: float, generator: torch.Generator) -> Tensor:
    """Maxwell's velocities in A/fs without total momentum."""
    mass = mass_table(numbers.device)[numbers][:, None]
    noise = torch.randn(len(numbers), 3, dtype=torch.float64, generator=generator)
    velocities = noise * torch.sqrt(BOLTZMANN * kelvin * ACCELERATION / mass)
    return velocities - (mass * velocities).sum(0) / mass.sum()


def mass_table(device: torch.device) -> Tensor:
    """Masses in dalton by atomic number, (100,) float64; NaN at 0, which is no element."""
    return torch.tensor((math.nan, *MASSES), dtype=torch.float64, device=device)


def _box(positions: Tensor, numbers: Tensor, side: Tensor) -> Batch:
    return {
        "positions": positions,
        "numbers": numbers,
        "system": torch.zeros(len(numbers), dtype=torch.int64),
        "start": torch.tensor([0, len(numbers)]),
        "cell": torch.diag(side)[None],
    }
