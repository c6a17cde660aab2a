"""accelerated-scan's peer: Newton's iteration by scans gives the diagonal, whatever makes the scans."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from phasewise import Shape
from phasewise_studies.bk_core import reference
from phasewise_studies.bk_core.peer_accelerated_scan import accelerated_scan, make_diagonal
from phasewise_studies.bk_core.problem import Z
from phasewise_studies.bk_core.program import make_inputs

NO_PACKAGE = "needs accelerated-scan (pip install accelerated-scan)"


def scan_one_by_one(forget: Tensor, inputs: Tensor) -> Tensor:
    found = [inputs[..., 0]]
    for index in range(1, inputs.shape[-1]):
        found.append(forget[..., index] * found[-1] + inputs[..., index])
    return torch.stack(found, dim=-1)


def find_error(scan, batch: int, length: int, seed: int, *, batched: bool = False) -> float:
    """The largest error of the diagonal over its largest entry, in float32."""
    drawn = make_inputs("forward", Shape(batch=batch, length=length, batched=batched), seed)
    exact = reference.diagonal_ratio(drawn["a"], drawn["b"], drawn["c"], Z)
    a, b, c = (drawn[name].float() for name in ("a", "b", "c"))
    pairs = make_diagonal(scan, lambda part: part)(a, b, c, Z.real, Z.imag)
    return ((torch.view_as_complex(pairs) - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.parametrize(("length", "batched"), [(1, False), (2, False), (129, True), (1000, False)])
def test_newton_by_scans_gives_the_diagonal(length: int, batched: bool) -> None:
    assert find_error(scan_one_by_one, 16, length, 3, batched=batched) < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_with_the_library_own_torch_form_it_gives_the_diagonal(seed: int) -> None:
    form = pytest.importorskip("accelerated_scan.ref", reason=NO_PACKAGE)
    assert find_error(form.scan, 128, 2048, seed) < 1e-6


@pytest.mark.gpu
def test_on_a_gpu_the_library_kernel_gives_the_diagonal() -> None:
    pytest.importorskip("accelerated_scan", reason=NO_PACKAGE)
    shape, device = Shape(batch=256, length=2048, batched=False), torch.device("cuda")
    drawn = make_inputs("forward", shape, 5)
    exact = reference.diagonal_ratio(drawn["a"], drawn["b"], drawn["c"], Z)
    program = accelerated_scan(drawn, "forward", shape, device)
    found = program.outputs(program.step({name: part.to(device, torch.float32) for name, part in drawn.items()}))
    assert ((found["diagonal"].cpu() - exact).abs().max() / exact.abs().max()).item() < 1e-5
