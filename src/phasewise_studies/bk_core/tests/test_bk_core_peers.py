"""What the peers are given and held to."""

from __future__ import annotations

import pytest
import torch

from phasewise import Shape
from phasewise_studies.bk_core import peers, reference
from phasewise_studies.bk_core.program import make_inputs
from phasewise_studies.bk_core.tests.operands import draw_operands


@pytest.mark.parametrize("batched", [False, True])
def test_bands_hold_the_same_matrix_as_the_dense_form(batched: bool) -> None:
    a, b, c = draw_operands(3, 12, batched=batched)
    lower, main, upper = peers.make_bands(a, b, c, 1j)
    matrix = torch.diag_embed(main) + torch.diag_embed(upper[:, :-1], 1) + torch.diag_embed(lower[:, 1:], -1)
    assert torch.equal(matrix, reference.dense_matrix(a, b, c, 1j))
    assert not lower[:, 0].any()
    assert not upper[:, -1].any()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cusparse_strided", "cusparse_interleaved", "jax_solve"])
def test_a_peer_solves_and_can_be_called_again(name: str) -> None:
    pytest.importorskip(
        "jax" if name == "jax_solve" else "cupy", reason="needs the peer (pip install jax, cupy-cuda13x)"
    )
    shape = Shape(batch=64, length=500, batched=False)
    inputs = make_inputs("forward", shape, 5)
    exact = peers.cusparse_strided_reference(inputs, "forward", shape).step(inputs)
    program = getattr(peers, name)(inputs, "forward", shape, torch.device("cuda"))
    placed = program.place(inputs)
    for _ in range(2):
        found = program.outputs(program.step(placed))["solution"].cpu()
        assert ((found - exact).norm() / exact.norm()).item() < 1e-5


def test_the_associative_scan_gives_the_diagonal() -> None:
    a, b, c = (part.float() for part in draw_operands(2, 33))
    found = peers.make_associative_scan(torch.device("cpu"))(a, b, c, 0.2, 0.6)
    exact = reference.diagonal_ratio(a.double(), b.double(), c.double(), 0.2 + 0.6j)
    assert ((torch.view_as_complex(found) - exact).abs().max() / exact.abs().max()).item() < 2e-6


@pytest.mark.gpu
def test_on_a_gpu_the_associative_scan_compiles_and_agrees() -> None:
    a, b, c = (part.float().cuda() for part in draw_operands(64, 500))
    found = peers.make_associative_scan(torch.device("cuda"))(a, b, c, 0.0, 1.0)
    exact = reference.diagonal_ratio(a.double(), b.double(), c.double(), 1j)
    assert ((torch.view_as_complex(found) - exact).abs().max() / exact.abs().max()).item() < 1e-5
