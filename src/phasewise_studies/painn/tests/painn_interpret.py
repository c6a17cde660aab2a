"""Run by test_painn_triton_interpret.py in a process where Triton interprets: messages, forces and atoms; prints what the named cases gave."""

from __future__ import annotations

from phasewise_studies.painn.kernels.dense import TileLaunch
from phasewise_studies.painn.kernels.launches import RowLaunch
from phasewise_studies.painn.layout import Atoms, Edges
from phasewise_studies.painn.tests import painn_kernel_cases as cases
from phasewise_studies.painn.tests.painn_tile_cases import LENGTHS, check_layers, check_poison, draw_rows
from phasewise_studies.testing import print_cases

# tiles with warps of 16 and of 32 features
TILE = RowLaunch(32, 2, warps=2, tile=8)
WIDE_TILE = RowLaunch(32, 4, tile=8)


def check_nothing() -> cases.Found:
    """No edges at all, in one place: rows are empty and every result is what went in."""
    atoms = cases.draw_batch([1, 1, 1])
    empty = cases.plain_list(atoms, 3)
    found = cases.check_messages(atoms, empty, 32, [RowLaunch(32, 2, 2), TILE], [RowLaunch(32, 2, 2), TILE])
    return found | cases.check_molecules(atoms, 3)


def check_tiles(launch: RowLaunch) -> cases.Found:
    """Rows around the length of a tile, and of none."""
    atoms, edges = draw_rows(LENGTHS)
    return cases.check_messages(atoms, edges, 32, [launch], [launch])


def draw_few() -> tuple[Atoms, Edges]:
    """Two molecules of four atoms together, and their list."""
    atoms = cases.draw_batch([3, 1])
    return atoms, cases.plain_list(atoms, 7)


def check_launch(forward: RowLaunch, backward: RowLaunch) -> cases.Found:
    """Messages of few edges with one launch each way."""
    return cases.check_messages(*draw_few(), 64, [forward], [backward])


def check_forces() -> cases.Found:
    """Sums into forces and energies."""
    atoms = cases.draw_batch([1, 6, 17, 3])
    return cases.check_forces(cases.plain_list(atoms, 230), atoms, 2)


CASES = {
    "nothing": check_nothing,
    "resident": lambda: check_launch(RowLaunch(32, 2, 1), RowLaunch(32, 2, 2)),
    "streamed": lambda: check_launch(RowLaunch(64, 2, 1, streamed=True), RowLaunch(64, 2, 1, streamed=True)),
    "tiles": lambda: check_tiles(TILE),
    "table": lambda: cases.check_messages(
        *draw_few(), 32, [RowLaunch(32, 1, 2)], [RowLaunch(32, 4, 1)], tabulated=True
    ),
    "forces": check_forces,
    "atoms": lambda: cases.check_atoms(19, 64, 32, few=TileLaunch(16, 32, 32)),
    "resident-two": lambda: check_launch(RowLaunch(64, 3, 2), RowLaunch(64, 3, 2)),
    "streamed-four": lambda: check_launch(RowLaunch(32, 2, 4, streamed=True), RowLaunch(32, 2, 4, streamed=True)),
    "wide-tiles": lambda: check_tiles(WIDE_TILE),
    # what is not finite stays where it belongs
    "tiles-poison": lambda: check_poison(draw_rows(LENGTHS)[1], 32, WIDE_TILE),
    "tiles-layers": lambda: check_layers(32, TILE),
    "bessel": lambda: cases.check_messages(
        *draw_few(), 32, [RowLaunch(32, 1, 4), TILE], [RowLaunch(32, 4, 1), TILE], basis="bessel"
    ),
    # records as long as those of a table
    "four-functions": lambda: cases.check_messages(
        *draw_few(), 32, [RowLaunch(32, 1, 4), TILE], [RowLaunch(32, 4, 1), TILE], functions=4
    ),
}

if __name__ == "__main__":
    print_cases(CASES)
