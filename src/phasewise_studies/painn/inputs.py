"""What a batch must be: shapes are looked at wherever one is made, values once, where systems are planned for.

A system without atoms has energy 0 beside others; a batch without any atom is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.painn.layout import SPECIES, Atoms

NAMES = ("positions", "numbers", "system", "start")


def check_names(batch: Mapping[str, Tensor]) -> None:
    """All tensors are there.

    Raises:
        UserError: one is not.
    """
    missing = ", ".join(name for name in NAMES if name not in batch)
    if missing:
        raise UserError(f"the batch has no {missing}: give {', '.join(NAMES)}, and cell where systems are periodic.")


def check_shapes(atoms: Atoms) -> None:
    """One row for each atom, or for each system; reads nothing on the device.

    Raises:
        UserError: another number of rows.
    """
    count, systems = atoms.positions.shape[0], atoms.start.shape[0] - 1
    allowed: dict[str, tuple[Tensor | None, tuple[int, ...]]] = {
        "positions": (atoms.positions, (count, 3)),
        "numbers": (atoms.numbers, (count,)),
        "system": (atoms.system, (count,)),
        "cell": (atoms.cell, (systems, 3, 3)),
    }
    for name, (tensor, shape) in allowed.items():
        if tensor is not None and tensor.shape != shape:
            raise UserError(
                f"{name} has the shape {tuple(tensor.shape)} in a batch of {count} atoms and {systems} systems: give {shape}."
            )


def check_values(atoms: Atoms) -> None:
    """Atoms of a system stand together, elements are known, cells span a volume; waits for the device.

    Raises:
        UserError: one of these is not so.
    """
    start, system, numbers = (tensor.cpu().long() for tensor in (atoms.start, atoms.system, atoms.numbers))
    count = len(numbers)
    if not count:
        raise UserError(f"a batch of 0 atoms in {len(start) - 1} systems: give at least one atom.")
    sizes = start.diff()
    if start[0] or start[-1] != count or (sizes < 0).any():
        raise UserError(
            f"start {start.tolist()} of {count} atoms: give 0, then how many atoms there are up to the end of each system."
        )
    expected = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    if not torch.equal(system, expected):
        at = int((system != expected).nonzero()[0])
        raise UserError(
            f"system[{at}] is {int(system[at])}, where start allows {int(expected[at])}: give the atoms in the order of their systems."
        )
    unknown = ((numbers < 0) | (numbers >= SPECIES)).nonzero()
    if len(unknown):
        at = int(unknown[0])
        raise UserError(f"numbers[{at}] is {int(numbers[at])}: give atomic numbers from 0 to {SPECIES - 1}.")
    for cell in () if atoms.cell is None else atoms.cell:
        check_cell(cell)


def check_cell(cell: Tensor) -> None:
    """Three vectors (3, 3) that span a volume; waits for the device.

    Raises:
        UserError: they do not.
    """
    # so asked, NaN has no volume either
    if cell.shape != (3, 3) or not 0 < abs(float(torch.linalg.det(cell.double()))) < torch.inf:
        raise UserError(
            f"cell {cell.tolist()}: give three lattice vectors that span a volume, or no cell where nothing is periodic."
        )
