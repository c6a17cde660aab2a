"""Filters as halves: whole again, whatever their size, and products of the accuracy of float32."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="the halves stand beside Triton kernels")

from phasewise_studies.painn.kernels import radial, split
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.tests import painn_kernel_cases as cases

COUNT = 21


def draw_filters() -> torch.Tensor:
    return 0.3 * torch.randn(3, COUNT, 96, generator=torch.Generator().manual_seed(8))


def split_plain(numbers: torch.Tensor) -> torch.Tensor:
    """(x_1, x_1, x_2), as the kernel of records writes them."""
    scaled = split.SCALE.value * numbers
    high = scaled.half()
    rest = high.new_zeros(len(numbers), split.find_depth(COUNT) - 3 * COUNT)
    return torch.cat((high, high, (scaled - high.float()).half(), rest), dim=1)


@pytest.mark.parametrize("factor", [1.0, 1e-7, 1e6, 3e-30])
def test_halves_of_any_filter_are_finite_and_add_up_to_it(factor: float) -> None:
    filters = factor * draw_filters()
    # a layer of zeros, and one weight far above the others
    filters[1] = 0
    filters[2, 4, 5] *= 1000
    found = split.split_filters(filters)
    assert found.halves.shape == (3, 96, 64) and found.halves.isfinite().all()
    high, low, again = (found.halves[:, :, n * COUNT :][:, :, :COUNT].double() for n in range(3))
    assert torch.equal(high, again) and not found.halves[:, :, 3 * COUNT :].any()
    whole = (high + low) * found.unit[:, None, None] * split.SCALE.value
    exact = filters.double().transpose(1, 2)
    assert not whole[1].any()
    for layer in (0, 2):
        error = (whole[layer] - exact[layer]).abs()
        # of each weight, or of the largest where it is far below that
        assert (error <= 2.0**-22 * exact[layer].abs() + 2.0**-38 * exact[layer].abs().max()).all()


@pytest.mark.parametrize("basis", ["gaussian", "bessel"])
def test_one_product_of_halves_has_the_error_of_float32(basis: str) -> None:
    sizes = Sizes(features=32, basis=basis)  # type: ignore[arg-type]
    d = torch.linspace(0.4, 5.2, 500, dtype=torch.float64)
    r = torch.stack((d, 0 * d, 0 * d), dim=1)
    filters = draw_filters()
    found = split.split_filters(filters)[1]
    for numbers in radial.edge_records_plain(r, sizes):
        numbers = numbers[:, :COUNT].float()
        product = split_plain(numbers).double() @ found.halves.double().T * found.unit
        assert cases.relative(product, numbers.double() @ filters[1].double()) < 3e-7


def test_the_depth_is_a_whole_number_of_instructions() -> None:
    assert [split.find_depth(count) for count in (3, 9, 21, 33)] == [32, 32, 64, 128]
