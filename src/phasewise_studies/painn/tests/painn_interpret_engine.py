"""Run by test_painn_engine.py in a process where Triton interprets: the whole stack against the reference, as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import torch

from phasewise_studies.painn import reference
from phasewise_studies.painn.engine import make_engine
from phasewise_studies.painn.layout import Atoms
from phasewise_studies.painn.switches import EVERYTHING, Switches
from phasewise_studies.painn.tests.painn_molecules import SMALL, draw_molecule, join, small_weights

# products of half the features go in tiles of 32
WIDE = replace(SMALL, features=64)
CELL = torch.diag(torch.tensor([11.0, 12.0, 13.0], dtype=torch.float64))
FULL = replace(Switches(**EVERYTHING), compiled=False)


def measure(atoms: Atoms, switches: Switches) -> dict[str, float | list[str]]:
    """Largest errors of one system."""
    weights = small_weights(WIDE)
    energy, forces = reference.energy_and_forces(atoms, *reference.find_neighbours(atoms, WIDE.cutoff), weights, WIDE)
    engine = make_engine(switches, weights, WIDE, atoms)
    found = engine.evaluate(atoms)
    return {
        "energy": float((found.energy - energy).abs().max()),
        "forces": float((found.forces - forces).abs().max()),
        "fallbacks": list(engine.fallbacks),
    }


def main() -> None:
    """Molecules with the last switches of the stack, a box with those before pruning."""
    found = {
        "molecules": measure(join([draw_molecule(2, 1), draw_molecule(1, 2)]), FULL),
        "box": measure(join([draw_molecule(2, 1)], CELL[None]), replace(FULL, pruned=False, precision="float32")),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
