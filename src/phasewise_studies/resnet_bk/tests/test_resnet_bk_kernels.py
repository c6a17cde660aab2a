"""The head's kernels: in Triton's interpreter, compiled for GPUs that are not here, and on one that is."""

from __future__ import annotations

import pytest
import torch

from phasewise_studies.resnet_bk import cross_entropy
from phasewise_studies.resnet_bk.cross_entropy import loss_plain
from phasewise_studies.resnet_bk.kernels import linear_cross_entropy
from phasewise_studies.resnet_bk.kernels.linear_cross_entropy import head_backward, head_forward, loss_fused
from phasewise_studies.testing import interpret_once

# float32 sums in another order; float16 rounds the probabilities that weigh W and x at 5e-4
TOLERANCE = {"float32": 2e-6, "float16": 1e-3}


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """What each case gave."""
    return interpret_once(tmp_path_factory, "phasewise_studies.resnet_bk.tests.resnet_bk_interpret")


def test_loss_and_gradients_agree_with_float64_at_odd_shapes(interpreted) -> None:
    assert len(interpreted) == 6 * 2 + 2
    for name, errors in interpreted.items():
        allowed = TOLERANCE["float16" if "float16" in name else "float32"]
        assert max(errors.values()) < allowed, (name, errors)


def test_without_a_kernel_the_plain_loss_answers() -> None:
    x, targets = torch.rand(5, 16), torch.arange(5)
    layer = torch.nn.Linear(16, 9)
    assert not linear_cross_entropy.takes_width_and_dtype(x, torch.float32)
    assert torch.equal(loss_fused(x, layer, targets), loss_plain(x, layer, targets))


NUMBERS = ("tokens", "vocabulary", "span", "splits")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_get_float32_s_loss_and_gradient_in_their_own_place(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    # three chunks, the last of them short
    monkeypatch.setattr(cross_entropy, "CHUNK_LOGITS", 3 * 40)
    generator = torch.Generator().manual_seed(0)
    leaf = (4 * torch.randn(7, 40, generator=generator)).to(dtype).requires_grad_()
    wide = leaf.detach().float().requires_grad_()
    targets = torch.randint(0, 39, (7,), generator=generator)
    place = leaf * 1.0
    with torch.no_grad():
        # a class that does not exist
        place[:, 39] = wide[:, 39] = -torch.inf
    value, exact = (
        cross_entropy.HalfCrossEntropy.apply(place, targets),
        torch.nn.functional.cross_entropy(wide, targets),
    )
    (64 * value).backward()
    (64 * exact).backward()
    assert value.item() == pytest.approx(exact.item(), rel=1e-6)
    torch.testing.assert_close(leaf.grad.float(), wide.grad, rtol=1e-2, atol=1e-3)
    assert leaf.grad[:, 39].count_nonzero() == 0
    assert torch.equal(place, leaf.grad)


def compile_kernel(name: str, constants: dict[str, int | bool], capability: int, warps: int, stages: int):
    """Machine code of one kernel of linear_cross_entropy_triton.py; 7.5 has no products of bfloat16."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from phasewise_studies.resnet_bk.kernels import linear_cross_entropy_triton

    kernel = getattr(linear_cross_entropy_triton, name)
    half = "*fp16" if capability < 80 else "*bf16"
    pointers = {"x": half, "weight": half, "targets": "*i64"}
    signature = {
        n: "constexpr" if n in constants else "i32" if n in NUMBERS else pointers.get(n, "*fp32")
        for n in kernel.arg_names
    }
    at = {n: (i,) for i, n in enumerate(kernel.arg_names)}
    aligned = {at[n]: [["tt.divisibility", 16]] for n in kernel.arg_names if n not in constants and n != "splits"}
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    options = {"num_warps": warps, "num_stages": stages}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("capability", [75, 80, 90])
def test_the_kernels_compile_without_a_gpu(capability: int) -> None:
    for name, tiles in (
        ("head_forward_kernel", linear_cross_entropy.FORWARD),
        ("head_backward_kernel", linear_cross_entropy.BACKWARD),
    ):
        constants = {"WIDTH": 64, "TOKENS": tiles.tokens, "CLASSES": tiles.classes, "EXACT": False}
        compiled = compile_kernel(name, constants, capability, tiles.warps, tiles.stages)
        assert len(compiled.asm["cubin"]) > 1000
        if capability == 90:
            assert "wgmma" in compiled.asm["ptx"]
    finish = compile_kernel("head_finish_kernel", {"WIDTH": 64, "TOKENS": 32}, capability, 4, 1)
    assert len(finish.asm["cubin"]) > 1000


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("tokens", "classes"), [(1, 7), (130, 1031), (4096, 30_000), (1000, 76_617)])
def test_on_a_gpu_loss_and_gradients_are_float64_s(tokens: int, classes: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(tokens)
    x, weight = (torch.randn(n, 64, generator=generator).cuda().to(dtype) for n in (tokens, classes))
    bias = torch.randn(classes, generator=generator).cuda()
    targets = torch.randint(0, classes, (tokens,), generator=generator).cuda()
    wide = [part.double().requires_grad_() for part in (x, weight, bias)]
    exact = torch.nn.functional.cross_entropy(wide[0] @ wide[1].t() + wide[2], targets)
    exact.backward()
    losses, grad_x, lse = head_forward(x, weight, bias, targets)
    share = torch.tensor(1 / tokens, device="cuda")
    grad_weight, grad_bias = head_backward(x, weight, bias, targets, lse, share)
    allowed = 1e-5 if dtype is torch.float32 else 1e-2
    assert float((losses.double().mean() - exact).abs() / exact) < 1e-5
    for found, leaf in ((grad_x * share, wide[0]), (grad_weight, wide[1]), (grad_bias, wide[2])):
        assert float((found.double() - leaf.grad).norm() / leaf.grad.norm()) < allowed
