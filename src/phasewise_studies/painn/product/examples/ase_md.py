"""Molecular dynamics of a molecule of your own, through ASE.

    python -m phasewise_studies.painn.product.examples.ase_md CCO                    # ethanol, from its SMILES (needs rdkit)
    python -m phasewise_studies.painn.product.examples.ase_md my_molecule.xyz        # any file that ASE reads
    python -m phasewise_studies.painn.product.examples.ase_md CCO --model my/checkpoint

The student (made by distil.train) knows H, C, N and O as GFN2-xTB sees them; for anything else bring your own checkpoint (import_schnetpack.py).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.io import read
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS

from phasewise.records.errors import report_errors
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.product.ase_calculator import PainnCalculator
from phasewise_studies.painn.product.evaluator import Evaluator
from phasewise_studies.painn.weights import STUDENT, draw_weights


def load_atoms(text: str) -> Atoms:
    """A file that ASE reads, or a SMILES."""
    if Path(text).exists():
        return read(text)
    from phasewise_studies.painn.product.distil.teacher import embed

    return embed(text, seed=1)


@report_errors
def main() -> None:
    """Relax, heat, run, and say how well the energy was kept."""
    parser = argparse.ArgumentParser(description="NVE dynamics of one molecule with the PaiNN student")
    parser.add_argument("molecule", help="a SMILES or a structure file")
    parser.add_argument("--model", type=Path, default=STUDENT)
    parser.add_argument("--random", action="store_true", help="untrained weights, to try the machinery")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--kelvin", type=float, default=300.0)
    given = parser.parse_args()

    atoms = load_atoms(given.molecule)
    sizes = Sizes()
    atoms.calc = PainnCalculator(Evaluator(draw_weights(sizes, 0), sizes) if given.random else given.model)
    BFGS(atoms, logfile=None).run(fmax=0.05, steps=0 if given.random else 200)
    MaxwellBoltzmannDistribution(atoms, temperature_K=given.kelvin, rng=np.random.default_rng(0))
    dynamics = VelocityVerlet(atoms, 0.5 * units.fs)
    totals = []
    dynamics.attach(lambda: totals.append(atoms.get_total_energy()), interval=10)
    dynamics.run(given.steps)
    print(f"{len(atoms)} atoms, {given.steps} steps of 0.5 fs on {atoms.calc.evaluator.device}")
    print(f"total energy {totals[0]:.4f} eV, spread {1e3 * float(np.std(totals)):.3f} meV")
    for reason in atoms.calc.evaluator.fallbacks:
        print(f"not as asked: {reason}")


if __name__ == "__main__":
    main()
