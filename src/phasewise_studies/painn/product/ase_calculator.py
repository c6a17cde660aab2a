"""PaiNN as an ASE calculator.

from ase.build import molecule
from phasewise_studies.painn.product.ase_calculator import PainnCalculator

atoms = molecule("CH3CH2OH")
atoms.calc = PainnCalculator()           # the student; PainnCalculator("my/model", device="cuda")
atoms.get_forces()
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.stress import full_3x3_to_voigt_6_stress

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError
from phasewise_studies.painn.product.evaluator import Evaluator
from phasewise_studies.painn.weights import STUDENT


class PainnCalculator(Calculator):
    """Energy, forces and (periodic) stress in ASE's units.

    `model` is a checkpoint's path, or an `Evaluator`. A system is periodic in all directions or in none.

    Raises:
        UserError: the device or the checkpoint is not here; when it calculates, elements or a periodicity that it does not know.
    """

    implemented_properties: ClassVar[list[str]] = ["energy", "free_energy", "forces", "stress"]

    def __init__(self, model: str | Path | Evaluator = STUDENT, device: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.evaluator = model if isinstance(model, Evaluator) else Evaluator.load(Path(model), choose_device(device))

    def calculate(
        self, atoms: Atoms | None = None, properties: list[str] | None = None, system_changes: list[str] = all_changes
    ) -> None:
        """Everything at once: forces cost hardly more than the energy once the list is there."""
        super().calculate(atoms, properties, system_changes)
        result = self.evaluator(as_batch(self.atoms))
        assert result.forces is not None and result.strain is not None, "an evaluator gives both"
        energy = float(result.energy[0])
        self.results = {"energy": energy, "free_energy": energy, "forces": result.forces.cpu().numpy().copy()}
        if self.atoms.pbc.all():
            stress = result.strain[0].cpu().numpy() / self.atoms.get_volume()
            self.results["stress"] = full_3x3_to_voigt_6_stress(stress)


def as_batch(atoms: Atoms) -> dict[str, torch.Tensor]:
    """One system as the evaluator takes it.

    Raises:
        UserError: it is periodic in one or two directions only, or empty.
    """
    if len(atoms) == 0:
        raise UserError("atoms: there are none; give the calculator at least one")
    if atoms.pbc.any() and not atoms.pbc.all():
        raise UserError(
            f"atoms.pbc is {atoms.pbc.tolist()}; all or none is allowed, put vacuum into the cell and set pbc=True"
        )
    batch = {
        "positions": torch.from_numpy(np.ascontiguousarray(atoms.positions)),
        "numbers": torch.from_numpy(atoms.numbers.astype(np.int64)),
        "system": torch.zeros(len(atoms), dtype=torch.int64),
        "start": torch.tensor([0, len(atoms)]),
    }
    if atoms.pbc.all():
        batch["cell"] = torch.from_numpy(np.array(atoms.cell))[None]
    return batch
