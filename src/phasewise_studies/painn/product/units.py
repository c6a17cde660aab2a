"""Whether labels are in eV and Angstrom: their size beside what the model that is started from says of the same frames.

A unit is taken for what is nearest on a logarithmic scale: kcal/mol is 23 times away, and methods differ by tens of per cent. Bonds
are held against covalent radii.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from ase import units
from ase.data import covalent_radii
from torch import Tensor

from phasewise.records.errors import UserError

LENGTHS = {"Angstrom": 1.0, "Bohr": units.Bohr, "nm": units.nm}
ENERGIES = {"eV": 1.0, "kcal/mol": units.kcal / units.mol, "kJ/mol": units.kJ / units.mol, "Hartree": units.Hartree}
FORCES = {
    "eV/Angstrom": 1.0,
    "kcal/mol/Angstrom": units.kcal / units.mol,
    "kJ/mol/Angstrom": units.kJ / units.mol,
    "Hartree/Bohr": units.Hartree / units.Bohr,
    "Hartree/Angstrom": units.Hartree,
}
# fewer frames tell no spread of the energy
FEWEST = 5


def nearest_unit(ratio: float, table: Mapping[str, float]) -> str:
    """The unit in which values come out `ratio` times what they are in the first one of the table."""
    return min(table, key=lambda name: abs(math.log(ratio * table[name])))


def check_lengths(frames: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Raise UserError where the shortest distances are no bonds in Angstrom."""
    ratios = []
    for part in frames.values():
        radii = torch.from_numpy(covalent_radii[part["numbers"].numpy()])
        apart = torch.cdist(part["positions"], part["positions"]) / (radii[:, None] + radii)
        apart.diagonal(dim1=1, dim2=2).fill_(math.inf)
        ratios += apart.flatten(1).min(1).values.tolist()
    ratio = float(np.median(ratios))
    if ratio == 0:
        raise UserError("frames: atoms lie on top of each other; mend the positions")
    # atoms alone have no distances
    if math.isfinite(ratio):
        _refuse("the shortest distances", f"{ratio:.3g} times covalent bonds", ratio, LENGTHS, "--length-unit")


def check_labels(
    frames: Mapping[str, Mapping[str, Tensor]], expected: Mapping[str, tuple[Tensor, Tensor]], named: frozenset[str]
) -> None:
    """Raise UserError where energies or forces are not as large as the model's; a unit in `named` is believed.

    `expected`: by molecule energies (M,) in eV and forces (M, N, 3) in eV/A of the model.
    """
    if "forces" not in named:
        found = [torch.cat([part["forces"].flatten() for part in frames.values()])]
        found.append(torch.cat([forces.flatten().cpu() for _, forces in expected.values()]))
        ratio = _ratio(*(float(values.abs().double().mean()) for values in found))
        _refuse("forces", f"{ratio:.3g} times the model's", ratio, FORCES, "--force-unit")
    spreads = [
        _ratio(float(part["energies"].std()), float(expected[name][0].double().std()))
        for name, part in frames.items()
        if len(part["energies"]) >= FEWEST
    ]
    if "energy" not in named and spreads:
        ratio = float(np.median(spreads))
        _refuse("energies", f"spread {ratio:.3g} times as wide as the model's", ratio, ENERGIES, "--energy-unit")


def _ratio(found: float, expected: float) -> float:
    # frames that are all alike tell nothing
    return found / expected if found > 0 and expected > 0 else 1.0


def _refuse(what: str, seen: str, ratio: float, table: Mapping[str, float], option: str) -> None:
    likely, wanted = nearest_unit(ratio, table), next(iter(table))
    if likely != wanted:
        raise UserError(
            f"frames: {what} are {seen}, as if in {likely}; {wanted} is taken where nothing is named: give {option} {likely}, or "
            f"{option} {wanted} if that is what they are"
        )
