"""The plain forms beside the kernels of painn, which the kernels are held to: against autograd of the reference, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="the plain forms stand beside Triton kernels")

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn import reference
from phasewise_studies.painn.kernels import (
    adjoint,
    adjoint_tiles,
    dense,
    forces,
    message,
    message_tiles,
    radial,
    readout,
    table,
    update,
    update_adjoint,
)
from phasewise_studies.painn.layout import Sizes, weight_shapes
from phasewise_studies.painn.tests import painn_kernel_cases as cases

SIZES = Sizes(features=32)
SKEWED = torch.tensor([[6.0, 0.0, 0.0], [1.0, 5.0, 0.0], [-1.0, 1.0, 7.0]])


def draw_weights(sizes: Sizes) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(4)
    return {
        name: torch.randn(shape, dtype=torch.float64, generator=generator) / shape[-1] ** 0.5
        for name, shape in weight_shapes(sizes).items()
    }


def step(atoms, edges, weights: dict[str, Tensor], sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
    """Energies, forces and strain gradient by the functions of the package, pruned, in the order of one step."""
    f, numbers = sizes.features, atoms.numbers.long()
    filters = message.pack_filter(weights["filter.weight"], weights["filter.bias"], sizes.layers)
    record, slope = radial.edge_records(edges.r.double(), edges.row_ptr, sizes)
    rows = (edges.row_ptr, edges.j)

    def context(q: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        name = f"message.{layer}"
        h, z = dense.linear(q, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"], silu=True)
        return dense.linear(h, weights[f"{name}.2.weight"], weights[f"{name}.2.bias"])[0], z

    q, mu, kept = weights["embedding"][numbers], None, []
    for layer in range(sizes.layers):
        name = f"update.{layer}"
        x, z_x = context(q, layer)
        before = mu
        q, mu = message.message(q, mu, x, record, *rows, filters[layer])
        vu, norm, dot = update.mix(mu, weights[f"{name}.mix.weight"], sizes.epsilon)
        h, z = dense.linear(q, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"], second=norm, silu=True)
        last = layer == sizes.layers - 1
        gate = (weights[f"{name}.2.weight"], weights[f"{name}.2.bias"])
        q, mu, gates = update.gate(h, *gate, q, None if last else mu, vu, dot)
        kept.append((before, x, z_x, vu, norm, dot, z, gates))
    z, _ = dense.linear(q, weights["readout.1.weight"], weights["readout.1.bias"])
    energy, zbar = readout.read_out(z, weights["readout.2.weight"], weights["readout.2.bias"])
    qbar, mubar = dense.linear(zbar, weights["readout.1.weight"], transpose=True)[0], None
    pulls = torch.zeros(1, edges.j.shape[0], 3, dtype=torch.float64)
    for layer in reversed(range(sizes.layers)):
        before, x, z_x, vu, norm, dot, z, gates = kept[layer]
        name = f"update.{layer}"
        zbar = update_adjoint.ungate(qbar, mubar, vu, dot, z, weights[f"{name}.2.weight"])
        both, _ = dense.linear(zbar, weights[f"{name}.1.weight"], transpose=True, residual=qbar)
        mubar = update_adjoint.unmix(qbar, both[:, f:], mubar, gates, vu, norm, weights[f"{name}.mix.weight"])
        qbar = both[:, :f]
        below = adjoint.message_adjoint(
            qbar, mubar, before, x, record, slope, *rows, filters[layer], pulls, add=layer < sizes.layers - 1
        )
        if below is not None:
            xbar, mubar = below
            name = f"message.{layer}"
            h, _ = dense.linear(xbar, weights[f"{name}.2.weight"], transpose=True, slope_at=z_x)
            qbar, _ = dense.linear(h, weights[f"{name}.1.weight"], transpose=True, residual=qbar)
    total = forces.sum_energies(energy, weights["atomref"], atoms, edges.overflow)
    found, strain = forces.gather_forces(pulls, edges, total, atoms.system, strain=True)
    return total, found, forces.sum_systems(strain, atoms.start)


@pytest.mark.parametrize("basis", ["gaussian", "bessel"])
@pytest.mark.parametrize("periodic", [False, True])
def test_a_step_of_these_functions_is_the_reference_and_its_gradient(basis: str, periodic: bool) -> None:
    sizes = Sizes(features=32, basis=basis)  # type: ignore[arg-type]
    atoms = cases.draw_box(7, SKEWED) if periodic else cases.draw_batch([5, 1, 9], apart=3.0)
    weights = draw_weights(sizes)
    i, j, shift = reference.find_neighbours(atoms, cases.CUTOFF)
    energy, exact = reference.energy_and_forces(atoms, i, j, shift, weights, sizes)[:2]
    # the list keeps r in float32, so what is left is its rounding
    edges = cases.plain_list(atoms, i.shape[0] + 3)
    found_energy, found, _ = step(atoms, edges, weights, sizes)
    assert cases.relative(found_energy, energy) < 1e-6
    assert cases.relative(found, exact) < 1e-5
    assert found.sum(0).abs().max() < 1e-12 * found.abs().max()


def test_the_adjoint_of_a_message_is_its_gradient_to_the_last_digits() -> None:
    atoms = cases.draw_batch([6, 4])
    edges = cases.plain_list(atoms, 60)
    count, found, f = 10, int(edges.row_ptr[-1]), SIZES.features
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(shape, dtype=torch.float64, generator=generator)  # noqa: E731
    q, mu, x, qbar, mubar = draw(count, f), draw(count, 3, f), draw(count, 3 * f), draw(count, f), draw(count, 3, f)
    filters, r = draw(21, 3 * f), edges.r.double()
    leaves = [tensor.requires_grad_() for tensor in (mu, x, r)]
    record, slope = radial.edge_records(r, edges.row_ptr, SIZES)
    results = message.message(q, mu, x, record, edges.row_ptr, edges.j, filters)
    exact = torch.autograd.grad((results[0] * qbar).sum() + (results[1] * mubar).sum(), leaves)
    pulls = torch.zeros(1, 60, 3, dtype=torch.float64)
    with torch.no_grad():
        xbar, below = adjoint.message_adjoint(
            qbar, mubar, mu, x, record, slope, edges.row_ptr, edges.j, filters, pulls, add=False
        )
    assert cases.relative(below, exact[0]) < 1e-13
    assert cases.relative(xbar, exact[1]) < 1e-13
    # p at an edge belongs to the edge read backwards
    assert cases.relative(pulls[0, edges.reverse.long()[:found]], exact[2][:found]) < 1e-12


def test_as_few_functions_as_a_table_has_weights_are_no_table() -> None:
    sizes = Sizes(features=32, radial=4)
    atoms, weights = cases.draw_batch([5, 9], apart=3.0), draw_weights(sizes)
    i, j, shift = reference.find_neighbours(atoms, cases.CUTOFF)
    energy, exact = reference.energy_and_forces(atoms, i, j, shift, weights, sizes)[:2]
    found_energy, found, _ = step(atoms, cases.plain_list(atoms, i.shape[0]), weights, sizes)
    assert cases.relative(found_energy, energy) < 1e-6
    assert cases.relative(found, exact) < 1e-5


def test_the_tables_of_all_layers_lie_as_the_kernels_read_them() -> None:
    filters = torch.randn(3, 21, 96, generator=torch.Generator().manual_seed(5))
    tables = table.build_table(filters, SIZES, 8)
    assert tables.shape == (3, 16, 96)
    assert all(layer.is_contiguous() for layer in tables)
    assert torch.equal(tables[1:2], table.build_table(filters[1:2], SIZES, 8))


def test_a_filter_from_the_table_is_close_and_its_slope_is_that_of_the_table() -> None:
    filters = torch.randn(1, 21, 96, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    d = torch.linspace(0.61, 5.2, 301, dtype=torch.float64, requires_grad=True)
    r = torch.stack((d, 0 * d, 0 * d), dim=1)
    rows = torch.tensor([0, 301], dtype=torch.int32)
    tabulated = table.build_table(filters, SIZES, 512)[0]
    record, slope = table.table_records(r, rows, SIZES, 512)
    exact, exact_slope = radial.edge_records(r, rows, SIZES)
    got = message.combine_plain(record, record, tabulated)
    assert cases.relative(got, message.combine_plain(exact, exact, filters[0])) < 1e-6
    steep = message.combine_plain(slope, record, tabulated)
    assert cases.relative(steep, message.combine_plain(exact_slope, exact, filters[0])) < 3e-5
    (gradient,) = torch.autograd.grad(got.sum(), d)
    assert cases.relative(steep.sum(1), gradient) < 1e-12
    assert not got[d > 5].any()


@pytest.mark.parametrize(
    "launch",
    [
        *message.FORWARD_LAUNCHES,
        *adjoint.ADJOINT_LAUNCHES,
        *message_tiles.FORWARD_TILES,
        *adjoint_tiles.ADJOINT_TILES,
    ],
    ids=str,
)
def test_every_launch_has_whole_warps_and_divides_the_width(launch: message.RowLaunch) -> None:
    message.check_launch(launch, 128)


def test_a_cpu_has_no_kernels() -> None:
    assert not has_kernel("cpu")
    assert not has_kernel("cpu", torch.float64)


def cut_to_tf32(x: Tensor) -> Tensor:
    """What a tensor core reads of a float32."""
    return (x.contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32)


@pytest.mark.parametrize("depth", [63, 128, 384])
def test_a_split_weight_is_whole_again_and_three_of_its_products_have_the_error_of_float32(depth: int) -> None:
    generator = torch.Generator().manual_seed(depth)
    x, weight = torch.randn(64, depth, generator=generator), torch.randn(96, depth, generator=generator)
    parts, back = dense.split(weight), cases.split_back(weight)
    assert torch.equal(dense.join(parts), weight) and torch.equal(dense.join(back), weight)
    assert torch.equal(cut_to_tf32(parts[0]), parts[0])
    # inputs of the product contiguous, forwards and transposed
    assert dense.find_strides(parts)[2] == dense.find_strides(back)[1] == 1
    high = dense.round_to_tf32(x)
    low, w, rest = (part.double() for part in (cut_to_tf32(x - high), parts[0], cut_to_tf32(parts[1])))
    found, exact = low @ w.T + high.double() @ rest.T + high.double() @ w.T, x.double() @ weight.double().T
    error, one = ((got - exact).abs().max() / exact.abs().max() for got in (found, high.double() @ w.T))
    assert error < 3e-7 and one > 1e-4
