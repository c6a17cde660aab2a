"""Frames labelled by a quantum teacher: GFN2-xTB (Bannwarth, Ehlert, Grimme, doi 10.1021/acs.jctc.8b01176) through tblite.

    python -m phasewise_studies.painn.product.distil.teacher [molecule ...]

Recipe: two conformers a molecule, relaxed, then Langevin dynamics at 500 K, a frame every 8 fs. Each molecule is one file in
`frames/`, about half a megabyte; all of them take under an hour on one core. Needs `pip install tblite ase rdkit`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phasewise.records.errors import UserError, report_errors

FOLDER = Path(__file__).parent / "frames"

# the default of 1 leaves 2e-4 eV/A in the forces, against finite differences
ACCURACY = 0.1
TEMPERATURE_K = 500.0
STEP_FS = 1.0
FRICTION_PER_FS = 0.02
# steps between two frames, and before the first
EVERY, SETTLE = 8, 200
CHAINS = 2


@dataclass(frozen=True)
class Recipe:
    """A molecule as SMILES, and how many frames of it are labelled."""

    smiles: str
    frames: int = 1000


# 9 to 49 atoms
MOLECULES = {
    "ethanol": Recipe("CCO"),
    "uracil": Recipe("O=c1cc[nH]c(=O)[nH]1"),
    "paracetamol": Recipe("CC(=O)Nc1ccc(O)cc1"),
    "aspirin": Recipe("CC(=O)Oc1ccccc1C(=O)O"),
    "alanine-dipeptide": Recipe("CC(=O)NC(C)C(=O)NC"),
    "caffeine": Recipe("Cn1cnc2c1c(=O)n(C)c(=O)n2C"),
    "ibuprofen": Recipe("CC(C)Cc1ccc(cc1)C(C)C(=O)O", 800),
    "testosterone": Recipe("C[C@]12CC[C@H]3[C@@H](CCC4=CC(=O)CC[C@]34C)[C@@H]1CC[C@@H]2O", 600),
}


def label(name: str, recipe: Recipe) -> dict[str, np.ndarray]:
    """numbers (N,), chain (M,), positions (M, N, 3) in A, energies (M,) in eV, forces (M, N, 3) in eV/A."""
    from ase import units
    from ase.md.langevin import Langevin
    from ase.md.velocitydistribution import MaxwellBoltzmannDistribution
    from ase.optimize import BFGS
    from tblite.ase import TBLite

    found: dict[str, list[Any]] = {"chain": [], "positions": [], "energies": [], "forces": []}
    numbers = np.zeros(0, dtype=np.int32)
    for chain in range(CHAINS):
        atoms = embed(recipe.smiles, seed=chain + 1)
        numbers = atoms.numbers.astype(np.int32)
        atoms.calc = TBLite(method="GFN2-xTB", accuracy=ACCURACY, verbosity=0)
        BFGS(atoms, logfile=None).run(fmax=0.05, steps=300)
        random = np.random.default_rng(chain)
        MaxwellBoltzmannDistribution(atoms, temperature_K=TEMPERATURE_K, rng=random)
        dynamics = Langevin(
            atoms, STEP_FS * units.fs, temperature_K=TEMPERATURE_K, friction=FRICTION_PER_FS / units.fs, rng=random
        )
        dynamics.run(SETTLE)
        for _ in range(recipe.frames // CHAINS):
            dynamics.run(EVERY)
            found["chain"].append(chain)
            found["positions"].append(atoms.get_positions() - atoms.get_center_of_mass())
            found["energies"].append(atoms.get_potential_energy())
            found["forces"].append(atoms.get_forces())
    return {
        "numbers": numbers,
        "chain": np.array(found["chain"], dtype=np.int8),
        "positions": np.array(found["positions"], dtype=np.float32),
        "energies": np.array(found["energies"], dtype=np.float64),
        "forces": np.array(found["forces"], dtype=np.float32),
    }


def embed(smiles: str, seed: int) -> Any:
    """An ase.Atoms of one conformer by rdkit's ETKDG.

    Raises:
        UserError: rdkit is not installed, cannot read the SMILES, or finds no conformer.
    """
    from ase import Atoms

    try:
        from rdkit import Chem
        from rdkit.Chem import AllChem
    except ModuleNotFoundError as error:
        raise UserError(
            f"{smiles}: reading a SMILES needs rdkit, which is not installed; pip install rdkit, or give a file that is there"
        ) from error
    parsed = Chem.MolFromSmiles(smiles)
    if parsed is None:
        raise UserError(
            f"{smiles}: rdkit reads no molecule from it; give a SMILES such as CCO, or a file that is there"
        )
    molecule = Chem.AddHs(parsed)
    if AllChem.EmbedMolecule(molecule, randomSeed=seed) != 0:
        raise UserError(f"{smiles}: rdkit finds no conformer with seed {seed}; give a file with positions")
    AllChem.MMFFOptimizeMolecule(molecule)
    numbers = [atom.GetAtomicNum() for atom in molecule.GetAtoms()]
    return Atoms(numbers=numbers, positions=molecule.GetConformer().GetPositions())


@report_errors
def main(names: list[str]) -> None:
    """Label the named molecules, or all."""
    unknown = [name for name in names if name not in MOLECULES]
    if unknown:
        raise UserError(
            f"{unknown[0]}: there is no recipe of it; choose among {', '.join(MOLECULES)}, or add one to MOLECULES"
        )
    FOLDER.mkdir(exist_ok=True)
    for name in names or MOLECULES:
        np.savez_compressed(FOLDER / f"{name}.npz", **label(name, MOLECULES[name]))
        print(f"{name}: {(FOLDER / f'{name}.npz').stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
