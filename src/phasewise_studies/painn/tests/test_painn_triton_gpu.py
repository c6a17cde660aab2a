"""The kernels of painn on a GPU at real sizes: every launch, float64 and brute force beside it, the same bits twice, in a graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from phasewise_studies.painn.kernels import dense
from phasewise_studies.painn.layout import Atoms, Edges
from phasewise_studies.painn.tests import painn_kernel_cases as cases

pytestmark = pytest.mark.gpu

# sums of up to a hundred float32 products, relative to the largest value
TOLERANCE = 5e-6
# the highest Bessel function turns through 63 rad up to the cutoff: rounding d to 2^-24 is 4e-6 of its slope
BESSEL = 1e-5
MOLECULES = [21, 64, 9, 1, 49, 33, 24] * 16


def hold(found: cases.Found, tolerance: float = TOLERANCE) -> None:
    wrong = {
        key: value for key, value in found.items() if (not value if isinstance(value, bool) else not value < tolerance)
    }
    assert found and not wrong


def few_molecules() -> tuple[Atoms, Edges]:
    atoms = cases.draw_batch(MOLECULES, "cuda")
    return atoms, cases.plain_list(atoms, 120_000)


@pytest.mark.parametrize("counts", [[1], [21], MOLECULES, [64] * 512], ids=["one", "aspirin", "mixed", "512x64"])
def test_molecules_agree_with_brute_force(counts: list[int]) -> None:
    hold(cases.check_molecules(cases.draw_batch(counts, "cuda"), 40 * sum(counts)))


@pytest.mark.parametrize(
    ("count", "side"), [(30, 5.5), (200, 12.0), (1296, 24.0), (8192, 43.5)], ids=["tiny", "small", "ice", "8192"]
)
@pytest.mark.parametrize("skewed", [False, True])
def test_boxes_agree_with_brute_force(count: int, side: float, skewed: bool) -> None:
    from phasewise_studies.painn.kernels.boxes import plan_box

    cell = side * torch.eye(3, dtype=torch.float64)
    if skewed:
        cell[1, 0], cell[2, 0], cell[2, 1] = 0.2 * side, -0.1 * side, 0.3 * side
    atoms = cases.draw_box(count, cell, "cuda")
    boxes = (plan_box(atoms.cell[0], cases.CUTOFF + skin, count) for skin in (0.0, 1.0))
    hold(cases.check_box(atoms, *boxes, 200 * count if count < 100 else 130 * count))


def list_launches(tabulated: bool, count: int | None) -> tuple[list, list]:
    """The first `count` of each kernel, forwards and backwards, those by tiles among them where there is no table."""
    from phasewise_studies.painn.kernels.adjoint import ADJOINT_LAUNCHES
    from phasewise_studies.painn.kernels.adjoint_tiles import ADJOINT_TILES
    from phasewise_studies.painn.kernels.message import FORWARD_LAUNCHES
    from phasewise_studies.painn.kernels.message_tiles import FORWARD_TILES

    both = ((FORWARD_LAUNCHES, FORWARD_TILES), (ADJOINT_LAUNCHES, ADJOINT_TILES))
    forward, backward = ([*plain[:count], *(() if tabulated else tiles[:count])] for plain, tiles in both)
    return forward, backward


# every launch once; what differs in the records alone is compiled for two
@pytest.mark.parametrize(
    ("basis", "tabulated", "launches"), [("gaussian", False, None), ("bessel", False, 1), ("gaussian", True, 2)]
)
def test_messages_agree_with_float64_and_repeat_their_bits(basis: str, tabulated: bool, launches: int | None) -> None:
    atoms, edges = few_molecules()
    some = list_launches(tabulated, launches)
    found = cases.check_messages(atoms, edges, 128, *some, tabulated=tabulated, basis=basis)
    hold(found, BESSEL if basis == "bessel" else TOLERANCE)


def test_messages_of_as_few_functions_as_a_table_has_weights_agree_with_float64() -> None:
    hold(cases.check_messages(*few_molecules(), 128, *list_launches(False, 2), functions=4))


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_forces_and_sums_agree_with_float64(parts: int) -> None:
    atoms, edges = few_molecules()
    hold(cases.check_forces(edges, atoms, parts), 1e-11)


@pytest.mark.parametrize("count", [1, 21, 5000])
def test_dense_layers_agree_with_float64(count: int) -> None:
    hold(cases.check_atoms(count, 128, 64, "cuda"))


@pytest.mark.parametrize("count", [21, 1296, 20000])
def test_products_of_positive_numbers_do_not_shrink(count: int) -> None:
    # tensor cores cut off towards zero: 3.8e-6 of each sum, where all 384 inputs have one accumulator
    generator = torch.Generator().manual_seed(1)
    x, weight = (torch.rand(rows, 384, generator=generator).cuda() for rows in (count, 128))
    exact = x.double() @ weight.double().T
    found, _ = dense.linear(x, dense.split(weight))
    assert abs(((found - exact) / exact).mean()) < 5e-7


def test_a_list_in_a_graph_follows_the_positions_and_says_when_it_overflows() -> None:
    from phasewise.kit.graphs import capture
    from phasewise_studies.painn.kernels.lists import find_plain
    from phasewise_studies.painn.kernels.molecules import find_in_molecules

    atoms = cases.draw_batch(MOLECULES, "cuda")
    room = int(cases.plain_list(atoms, 120_000).row_ptr[-1]) + 200
    captured = capture(
        lambda positions: find_in_molecules(replace(atoms, positions=positions), cases.CUTOFF, room), atoms.positions
    )
    assert captured.is_graph, captured.reason
    for scale in (1.0, 1.01, 0.6):
        positions = atoms.positions * scale
        expected = find_plain(replace(atoms, positions=positions), cases.CUTOFF, room)
        assert cases.same(captured.call(positions), expected)
    assert int(expected.overflow) > 0


def test_a_cell_list_in_a_graph_follows_the_positions() -> None:
    from phasewise.kit.graphs import capture
    from phasewise_studies.painn.kernels.boxes import plan_box
    from phasewise_studies.painn.kernels.cells import find_in_box

    cell = 24.0 * torch.eye(3, dtype=torch.float64)
    atoms = cases.draw_box(1296, cell, "cuda")
    box = plan_box(atoms.cell[0], cases.CUTOFF, 1296)
    captured = capture(
        lambda positions: find_in_box(replace(atoms, positions=positions), box, 130_000), atoms.positions
    )
    assert captured.is_graph, captured.reason
    for step in range(3):
        moved = replace(atoms, positions=atoms.positions + step * torch.sin(atoms.positions))
        edges, _ = captured.call(moved.positions)
        expected, _ = find_in_box(moved, box, 130_000)
        assert cases.same(edges, expected)
