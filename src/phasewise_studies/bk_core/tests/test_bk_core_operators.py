"""The gradient as PyTorch sees it: an autograd Function, and operators under compile and export."""

from __future__ import annotations

import pytest
import torch

from phasewise_studies.bk_core import reference
from phasewise_studies.bk_core.product import operators
from phasewise_studies.bk_core.tests.operands import draw_operands

SHIFT = torch.tensor([0.3, 0.7], dtype=torch.float64)


def draw(batch: int, length: int, *, batched: bool = False, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    return [part.to(dtype).requires_grad_() for part in draw_operands(batch, length, batched=batched)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_the_function_passes_gradcheck_for_a_b_c_and_a_shift_of_either_shape(batched: bool, causal: bool) -> None:
    for z in (torch.view_as_complex(SHIFT), torch.tensor([0.3 + 0.7j, 1j, -0.2 + 0.4j], dtype=torch.complex128)):
        operands = (*draw(3, 4, batched=batched), z.clone().requires_grad_())
        assert torch.autograd.gradcheck(lambda *given: operators.diagonal(*given, causal), operands)


def test_a_number_as_shift_needs_no_gradient_and_only_what_is_asked_for_gets_one() -> None:
    a, b, c = draw_operands(2, 5)
    a.requires_grad_()
    operators.diagonal(a, b, c, 1j).real.sum().backward()
    assert a.grad is not None
    assert b.grad is None


@pytest.mark.parametrize("causal", [False, True])
def test_the_operator_passes_gradcheck_and_opcheck(causal: bool) -> None:
    operands = (*draw(2, 4), SHIFT.clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda *given: operators.diagonal_pairs(*given, causal), operands)
    assert set(torch.library.opcheck(operators.diagonal_pairs, (*operands, causal)).values()) == {"SUCCESS"}
    plain = [part.detach() for part in operands]
    upstream = torch.ones(2, 4, 2, dtype=torch.float64)
    assert set(torch.library.opcheck(operators.gradient_pairs, (*plain, upstream, causal)).values()) == {"SUCCESS"}


def test_compiled_it_gives_the_same_value_and_gradient() -> None:
    def loss(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return operators.diagonal_pairs(a * 2, b, c, SHIFT, False).square().sum()

    # without Inductor's code: what is tested is that Dynamo and AOTAutograd go through the operator in one graph
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    operands = draw(2, 6)
    found = torch.autograd.grad(compiled(*operands), operands)
    for grad, wanted in zip(found, torch.autograd.grad(loss(*operands), operands), strict=True):
        torch.testing.assert_close(grad, wanted)


def test_exported_it_is_one_operator_of_the_graph() -> None:
    class Module(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return operators.diagonal_pairs(a, b, c, z, False)

    a, b, c = draw_operands(2, 6)
    exported = torch.export.export(Module(), (a, b, c, SHIFT))
    calls = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    assert torch.ops.phasewise_bk.diagonal.default in calls
    exact = torch.view_as_real(reference.diagonal_ratio(a, b, c, 0.3 + 0.7j))
    torch.testing.assert_close(exported.module()(a, b, c, SHIFT), exact)


@pytest.mark.gpu
def test_on_a_gpu_compiled_training_goes_through_the_kernels() -> None:
    operands = [part.detach().cuda().requires_grad_() for part in draw(64, 500, dtype=torch.float32)]
    z = torch.tensor([0.0, 1.0], device="cuda")

    def loss(*given: torch.Tensor) -> torch.Tensor:
        return operators.diagonal_pairs(*given, z, False).square().sum()

    found = torch.autograd.grad(torch.compile(loss, fullgraph=True)(*operands), operands)
    for grad, wanted in zip(found, torch.autograd.grad(loss(*operands), operands), strict=True):
        torch.testing.assert_close(grad, wanted, rtol=1e-5, atol=1e-5)
