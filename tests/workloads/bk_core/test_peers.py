"""What the peers are given and held to."""

from __future__ import annotations

import pytest
import torch

from phasewise.workloads.bk_core import peers, reference
from workloads.bk_core.operands import draw_operands


@pytest.mark.parametrize("batched", [False, True])
def test_bands_hold_the_same_matrix_as_the_dense_form(batched: bool) -> None:
    a, b, c = draw_operands(3, 12, batched=batched)
    lower, main, upper = peers.make_bands(a, b, c, 1j)
    matrix = torch.diag_embed(main) + torch.diag_embed(upper[:, :-1], 1) + torch.diag_embed(lower[:, 1:], -1)
    assert torch.equal(matrix, reference.dense_matrix(a, b, c, 1j))
    assert not lower[:, 0].any()
    assert not upper[:, -1].any()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["solve_strided", "solve_interleaved", "solve_jax"])
def test_a_peer_solves_and_can_be_called_again(name: str) -> None:
    pytest.importorskip(
        "jax" if name == "solve_jax" else "cupy", reason="needs the peer (pip install jax, cupy-cuda13x)"
    )
    a, b, c = (operand.cuda() for operand in draw_operands(64, 500))
    right = torch.randn(64, 500, dtype=torch.complex64, device="cuda")
    exact = reference.solve_tridiagonal(a, b, c, 1j, right.to(torch.complex128))
    bands = [band.contiguous() for band in peers.make_bands(a.float(), b.float(), c.float(), 1j)]
    step = getattr(peers, name)(*bands, right)
    for _ in range(2):
        assert ((step() - exact).norm() / exact.norm()).item() < 1e-5
