"""The model as a module that leaves Python: energies and forces without autograd, so that torch.export can follow it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from phasewise_studies.painn import adjoint, neighbours
from phasewise_studies.painn.assembly import by_scatter, refuse_positions
from phasewise_studies.painn.layout import Atoms, Sizes, Weights
from phasewise_studies.painn.messages import PlainMessages


class _Held(torch.nn.Module):
    """Pruned weights as buffers, under names that a module allows."""

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.names = {name: name.replace(".", "_") for name in adjoint.prune_weights(weights, sizes)}
        for name, tensor in adjoint.prune_weights(weights, sizes).items():
            self.register_buffer(self.names[name], tensor.to(torch.float64 if name == "atomref" else torch.float32))

    def weights(self) -> dict[str, Tensor]:
        """The buffers under their own names."""
        return {name: getattr(self, attribute) for name, attribute in self.names.items()}

    def pulls(self, numbers: Tensor, r: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
        """Energy of each atom and dE/dr' of each edge."""
        weights = self.weights()
        messages = PlainMessages(r, i, j, weights, self.sizes)
        energy, pulls = adjoint.energies_and_pulls(numbers, messages, weights, self.sizes, pruned=True)
        assert pulls is not None, "forces were asked for"
        return energy, pulls


class Potential(_Held):
    """Positions in, energies and forces out, list included; for systems like `atoms`, in a fixed number of places."""

    def __init__(self, weights: Weights, sizes: Sizes, atoms: Atoms) -> None:
        super().__init__(weights, sizes)
        self.plan = neighbours.plan_list(atoms, sizes.cutoff)
        self.to(atoms.positions.device)

    def forward(
        self, positions: Tensor, numbers: Tensor, system: Tensor, start: Tensor, cell: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Energies (B,) and forces (A, 3), float64; NaN if the list had no place for an edge."""
        # ONNX scatters by int64 only
        atoms = Atoms(positions, numbers, system.long(), start, cell)
        edges = neighbours.in_places(atoms, self.plan)
        edges = replace(edges, i=edges.i.long(), j=edges.j.long())
        energy, pulls = self.pulls(numbers, edges.r, edges.i, edges.j)
        result = by_scatter(atoms, edges, energy, pulls, self.weights()["atomref"], False)
        assert result.forces is not None, "forces were asked for"
        return {"energy": result.energy, "forces": result.forces}


class PotentialOnEdges(_Held):
    """The same with a list from outside: any number of atoms, edges and systems."""

    def forward(
        self, positions: Tensor, numbers: Tensor, system: Tensor, i: Tensor, j: Tensor, offset: Tensor, empty: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Energies (B,) and forces (A, 3), float64.

        Args:
            positions: (A, 3) float64. numbers, system: (A,) int64.
            i, j: receivers and neighbours (E,) int64; both directions of every pair.
            offset: (E, 3) float64, the lattice vector that is added to R_j.
            empty: (B,) of any content; its length is the number of systems.
        """
        r = positions.index_select(0, j) - positions.index_select(0, i) + offset
        per_atom, pulls = self.pulls(numbers, r.float(), i, j)
        per_atom = per_atom.double() + self.weights()["atomref"].index_select(0, numbers)
        per_atom = refuse_positions(positions, per_atom)
        energy = torch.zeros_like(empty, dtype=torch.float64).index_add(0, system, per_atom)
        p = pulls.double()
        forces = torch.zeros_like(positions).index_add(0, i, -p).index_add(0, j, p)
        return energy, forces.masked_fill(~energy.isfinite().index_select(0, system)[:, None], torch.nan)
