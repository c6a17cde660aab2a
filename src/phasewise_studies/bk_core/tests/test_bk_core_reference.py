"""The plain forms of the diagonal, against the dense inverse and against what the theorem promises."""

from __future__ import annotations

import pytest
import torch

from phasewise.records.errors import UserError
from phasewise_studies.bk_core import reference, scan
from phasewise_studies.bk_core.tests.operands import draw_operands, relative_error

LENGTHS = (1, 2, 3, 31, 64, 127)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("z", [1j, 0.3 + 0.05j])
def test_ratio_and_scan_agree_with_the_dense_inverse(length: int, batched: bool, z: complex) -> None:
    a, b, c = draw_operands(3, length, batched=batched)
    exact = reference.diagonal_dense(a, b, c, z)
    assert relative_error(reference.diagonal_ratio(a, b, c, z), exact) < 1e-12
    assert relative_error(scan.diagonal_scan(a, b, c, z), exact) < 1e-12


def differentiate_dense(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex, upstream: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The diagonal, and dL/da, dL/db, dL/dc and dL/dz, through the dense inverse: dG = -G dH G."""
    inverse = torch.linalg.inv(reference.dense_matrix(a, b, c, z))
    weighted = inverse * upstream.conj()[:, None, :]
    diagonal = -(weighted * inverse.transpose(1, 2)).sum(2)
    # H_{m,m+1} = b_m meets (G w G)_{m+1,m}, and H_{m+1,m} = c_m meets (G w G)_{m,m+1}
    above = -(weighted[:, 1:] * inverse.transpose(1, 2)[:, :-1]).sum(2)
    below = -(weighted[:, :-1] * inverse.transpose(1, 2)[:, 1:]).sum(2)
    return inverse.diagonal(dim1=1, dim2=2), diagonal.real, above.real, below.real, -diagonal.sum(1).conj()


@pytest.mark.parametrize(
    ("length", "batch"),
    [*((length, batch) for length in (1, 2, 3, 31, 64, 127) for batch in (1, 3, 130)), (500, 1), (500, 3),
     # minutes of dense inverses
     *(pytest.param(*size, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]) for size in ((500, 130), (2048, 1), (2048, 3), (2048, 130)))],
)  # fmt: skip
def test_diagonal_and_gradient_agree_with_the_dense_inverse(length: int, batch: int) -> None:
    a, b, c = draw_operands(batch, length, batched=True)
    z = 0.3 + 0.6j
    upstream = torch.randn(batch, length, dtype=torch.complex128, generator=torch.Generator().manual_seed(2))
    # row by row: a dense inverse of 2048 is 67 MB
    rows = [
        differentiate_dense(*(part[row, None] for part in (a, b, c)), z, upstream[row, None]) for row in range(batch)
    ]
    exact, by_a, by_b, by_c, by_z = map(torch.cat, zip(*rows, strict=True))
    found_a, by_k, found_z = reference.gradient(a, b, c, z, upstream)
    assert relative_error(reference.diagonal_ratio(a, b, c, z), exact) < 1e-12
    for found, exact in ((found_a, by_a), (by_k * c, by_b), (by_k * b, by_c), (found_z, by_z)):
        if exact.numel():
            assert ((found - exact).abs().max() / exact.abs().max()).item() < 1e-12


@pytest.mark.parametrize("causal", [False, True])
def test_the_plain_gradient_is_that_of_autograd(causal: bool) -> None:
    a, b, c = (part.requires_grad_() for part in draw_operands(3, 20, batched=True))
    z = torch.tensor(0.3 + 0.2j, dtype=torch.complex128, requires_grad=True)
    upstream = torch.randn(3, 20, dtype=torch.complex128, generator=torch.Generator().manual_seed(4))
    form = reference.diagonal_causal if causal else reference.diagonal_ratio
    exact = torch.autograd.grad(form(a, b, c, z), (a, b, c, z), upstream)
    by_a, by_k, by_z = reference.gradient(*(part.detach() for part in (a, b, c, z)), upstream, causal=causal)
    for found, whole in zip((by_a, by_k * c.detach(), by_k * b.detach(), by_z.sum()), exact, strict=True):
        torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-12)


def test_the_causal_diagonal_is_that_of_the_leading_blocks_and_cannot_see_ahead() -> None:
    a, b, c = draw_operands(2, 9)
    causal = reference.diagonal_causal(a, b, c, 1j)
    for end in range(1, 10):
        block = reference.diagonal_dense(a[:, :end], b[: end - 1], c[: end - 1], 1j)
        assert relative_error(causal[:, end - 1], block[:, -1]) < 1e-13
    changed = a.clone()
    changed[:, 5] += 1
    after = reference.diagonal_causal(changed, b, c, 1j)
    assert torch.equal(after[:, :5], causal[:, :5])
    assert not torch.equal(after[:, 5:], causal[:, 5:])
    assert relative_error(scan.diagonal_scan(a, b, c, 1j, causal=True), causal) < 1e-13


@pytest.mark.parametrize("documented", [True, False])
@pytest.mark.parametrize("eta", [1.0, 0.3, 0.05])
@pytest.mark.parametrize("form", [reference.diagonal_ratio, scan.diagonal_scan, reference.diagonal_causal])
def test_the_imaginary_part_is_positive_and_the_size_at_most_one_over_eta(form, eta: float, documented: bool) -> None:
    operands = draw_operands(8, 300, documented=documented)
    for dtype in (torch.float32, torch.float64):
        result = form(*(operand.to(dtype) for operand in operands), complex(0, eta))
        assert (result.imag > 0).all()
        assert (result.abs() <= (1 + 1e-5) / eta).all()


def test_the_textbook_form_is_right_while_short_and_not_finite_in_complex64_from_128() -> None:
    a, b, c = torch.full((2, 128), -2.0), torch.ones(127), torch.ones(127)
    short = reference.diagonal_textbook(a[:, :32].double(), b[:31].double(), c[:31].double(), 1j)
    assert (
        relative_error(short, reference.diagonal_dense(a[:, :32].double(), b[:31].double(), c[:31].double(), 1j))
        < 1e-12
    )
    assert not torch.isfinite(torch.view_as_real(reference.diagonal_textbook(a, b, c, 1j))).all()
    assert torch.isfinite(torch.view_as_real(reference.diagonal_ratio(a, b, c, 1j))).all()


def test_the_scan_is_finite_and_right_at_65536_positions_in_complex64() -> None:
    a, b, c = draw_operands(1, 65536)
    exact = scan.diagonal_scan(a, b, c, 1j)
    single = scan.diagonal_scan(a.float(), b.float(), c.float(), 1j)
    assert torch.isfinite(torch.view_as_real(single)).all()
    assert relative_error(single, exact) < 2e-6


def test_a_solve_has_the_residual_of_a_solve() -> None:
    a, b, c = draw_operands(3, 40, batched=True)
    right = torch.randn(3, 40, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    solution = reference.solve_tridiagonal(a, b, c, 1j, right)
    product = (reference.dense_matrix(a, b, c, 1j) @ solution[..., None])[..., 0]
    assert (product - right).abs().max() < 1e-13


def test_nan_stays_in_its_row() -> None:
    a, b, c = draw_operands(3, 50)
    a[1, 20] = float("nan")
    for form in (reference.diagonal_ratio, scan.diagonal_scan):
        result = torch.view_as_real(form(a, b, c, 1j))
        assert torch.isnan(result[1]).all()
        assert torch.isfinite(result[[0, 2]]).all()


def test_an_empty_batch_gives_an_empty_diagonal() -> None:
    for form in (reference.diagonal_ratio, reference.diagonal_causal, reference.diagonal_dense, scan.diagonal_scan):
        result = form(torch.empty(0, 5), torch.ones(4), torch.ones(4), 1j)
        assert result.shape == (0, 5)
        assert result.dtype == torch.complex64


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"a": torch.ones(5)}, "bk_core a"),
        ({"b": torch.ones(5)}, "bk_core b"),
        ({"c": torch.ones(3, 4, dtype=torch.float64)}, "bk_core c"),
        ({"z": 1.0 + 0j}, "imaginary part"),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_one_sentence(change: dict, word: str) -> None:
    operands = {"a": torch.ones(3, 5), "b": torch.ones(4), "c": torch.ones(4), "z": 1j} | change
    with pytest.raises(UserError, match=word):
        reference.check_operands(**operands)
