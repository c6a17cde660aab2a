"""PaiNN as a TorchSim model: many systems at once, on one device.

import torch_sim as ts
from phasewise_studies.painn.product.torchsim_model import PainnModel

model = PainnModel(device=torch.device("cuda"))
nve = getattr(ts, "Integrator", ts).nve  # at the top before TorchSim 0.4, the last for Python 3.11
state = ts.integrate(system=[atoms] * 100, model=model, integrator=nve, n_steps=1000, temperature=300, timestep=0.0005)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch_sim.models.interface import ModelInterface

from phasewise.kit.devices import choose_device
from phasewise.records.errors import UserError
from phasewise_studies.painn.product.evaluator import Evaluator
from phasewise_studies.painn.weights import STUDENT


class PainnModel(ModelInterface):
    """Energies, forces and stress; the arithmetic is float32 inside, results have the model's `dtype`."""

    def __init__(
        self,
        model: str | Path | Evaluator = STUDENT,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self._device, self._dtype = choose_device(device), dtype
        self._compute_stress, self._compute_forces = True, True
        self._memory_scales_with = "n_atoms_x_density"
        self.evaluator = model if isinstance(model, Evaluator) else Evaluator.load(Path(model), self._device)

    def forward(self, state: Any, **_: Any) -> dict[str, torch.Tensor]:
        """Energy (B,) in eV, forces (A, 3) in eV/A, stress (B, 3, 3) in eV/A^3 (0 where nothing is periodic).

        Raises:
            UserError: systems that are periodic in one or two directions only, or elements that the model does not know.
        """
        pbc = torch.as_tensor(state.pbc, device="cpu").reshape(-1)
        if bool(pbc.any()) and not bool(pbc.all()):
            raise UserError(f"state.pbc is {pbc.tolist()}; all or none is allowed, put vacuum into the cell")
        system = state.system_idx
        systems = int(system[-1]) + 1
        counts = torch.bincount(system, minlength=systems)
        batch = {
            "positions": state.positions, "numbers": state.atomic_numbers, "system": system,
            "start": torch.nn.functional.pad(counts.cumsum(0), (1, 0)),
        }  # fmt: skip
        if bool(pbc.all()):
            # TorchSim keeps lattice vectors in columns
            batch["cell"] = state.cell.mT.contiguous()
        result = self.evaluator(batch)
        assert result.forces is not None and result.strain is not None, "an evaluator gives both"
        stress = torch.zeros_like(result.strain)
        if "cell" in batch:
            stress = result.strain / torch.linalg.det(batch["cell"]).abs().double()[:, None, None]
        # the next call writes to the same memory
        found = {"energy": result.energy, "forces": result.forces, "stress": stress}
        return {name: tensor.to(self.dtype, copy=True) for name, tensor in found.items()}
