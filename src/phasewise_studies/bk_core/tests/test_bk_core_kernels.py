"""The fused kernel: in Triton's interpreter, and compiled to machine code for GPUs that are not here."""

from __future__ import annotations

import pytest
import torch

from phasewise_studies.bk_core import kernels, reference, scan
from phasewise_studies.bk_core.kernels import prepared
from phasewise_studies.bk_core.kernels.launch import LANES, choose_launch
from phasewise_studies.bk_core.tests.operands import draw_operands, relative_error
from phasewise_studies.testing import interpret_once

# resnet_bk.md, section 1.A: fp32 forward, maximum relative error
TOLERANCE = 2e-6
# the same, backward
GRADIENT_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float | bool]]:
    """What each case gave."""
    return interpret_once(tmp_path_factory, "phasewise_studies.bk_core.tests.interpret_kernels")


def test_every_size_agrees_with_float64_and_obeys_the_theorem(interpreted) -> None:
    measured = {name: case for name, case in interpreted.items() if "error" in case}
    assert len(measured) == 7 + 6 + 6 + 5
    wrong = {n: c for n, c in measured.items() if not (c["error"] < TOLERANCE and c["bounded"])}
    assert not wrong


def test_every_gradient_agrees_with_float64(interpreted) -> None:
    wrong = {n: c["gradient"] for n, c in interpreted.items() if not c.get("gradient", 0.0) < GRADIENT_TOLERANCE}
    assert not wrong


@pytest.mark.parametrize("name", ["nan", "empty", "float64", "negative-couplings", "prepared", "prepared-gradient"])
def test_edges_are_right(interpreted, name: str) -> None:
    assert interpreted[name]["right"], interpreted[name]


def test_without_a_kernel_the_reference_answers_and_says_so() -> None:
    assert not kernels.has_kernel("cpu")
    a, b, c = (operand.float() for operand in draw_operands(3, 40))
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), 1j)
    assert relative_error(kernels.diagonal(a, b, c, 1j), exact) < TOLERANCE


@pytest.mark.parametrize("length", [1, 2, 3, 5, 31, 128, 129, 500, 2048, 4096, 4097, 9001, 65536])
@pytest.mark.parametrize("batch", [1, 130, 70_000])
@pytest.mark.parametrize("gradient", [False, True])
def test_a_launch_covers_the_row_and_can_see_both_ways(length: int, batch: int, gradient: bool) -> None:
    launch = choose_launch(batch, length, gradient=gradient)
    parts = launch.count_parts(length)
    assert launch.chunk * launch.span * parts >= length
    assert launch.chunk in (4, 8, 16)
    # a part that is not the whole row gives up its first and its last chunks of a step
    assert parts == 1 or 0 < launch.span <= batch * length
    assert launch.view < LANES // 2


# between them the three meet every branch of the kernels, with few elements to a thread or, which takes ten seconds, with eight
SHAPES = {
    75: {"CHUNK": 4, "VIEW": 10, "ALONE": False, "CAUSAL": True, "ROW_Z": True},
    80: {"CHUNK": 4, "VIEW": 10, "SHARP": True, "COUPLINGS": True, "SHIFT": True},
    90: {"CHUNK": 4, "VIEW": 3, "COUPLINGS": True, "SHARED": False},
}
EIGHT = {"CHUNK": 8}
DEFAULTS = {"ALONE": True, "CAUSAL": False, "SHARP": False, "ROW_Z": False, "COUPLINGS": False, "SHARED": True,
            "SHIFT": False, "PTX": True, "stride_an": 1, "stride_bn": 1, "stride_cn": 1, "stride_wn": 1}  # fmt: skip
NUMBERS = {"energy": "fp32", "eta": "fp32", "length": "i32", "chunks": "i32", "span": "i32"}


def compile_kernel(name: str, changes: dict[str, int | bool], capability: int):
    """Machine code of one kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from phasewise_studies.bk_core.kernels import adjoint, forward

    kernel = {"forward": forward.diagonal_kernel, "gradient": adjoint.gradient_kernel}[name]
    constants = {n: value for n, value in (DEFAULTS | changes).items() if n in kernel.arg_names}
    signature = {
        n: "constexpr" if n in constants else "i32" if n.startswith("stride") else NUMBERS.get(n, "*fp32")
        for n in kernel.arg_names
    }
    at = {n: (i,) for i, n in enumerate(kernel.arg_names)}
    aligned = {at[n]: [["tt.divisibility", 16]] for n, kind in signature.items() if kind == "*fp32" or n == "length"}
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 1})


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "capability", "changes"),
    [
        *((name, capability, {}) for name in ("forward", "gradient") for capability in SHAPES),
        ("forward", 90, EIGHT),
        pytest.param("gradient", 90, EIGHT, marks=pytest.mark.slow),
    ],
)
def test_the_kernels_compile_without_a_gpu_and_share_nothing_between_warps(
    name: str, capability: int, changes: dict[str, int | bool]
) -> None:
    compiled = compile_kernel(name, SHAPES[capability] | changes, capability)
    assert len(compiled.asm["cubin"]) > 1000
    # one warp a program: what would be a barrier of a block can't wait for anybody else
    assert compiled.metadata.num_warps == 1


@pytest.mark.gpu
@pytest.mark.parametrize("z", [1j, 0.3 + 0.05j])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (130, 3), (130, 500), (3, 2048), (2, 9001), (4096, 2048)])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_every_entry_is_written_right_and_repeats_its_bits(
    batch: int, length: int, z: complex, batched: bool, causal: bool
) -> None:
    a, b, c = (operand.float().cuda() for operand in draw_operands(batch, length, batched=batched))
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), z, causal=causal)
    out = torch.full((batch, length), float("nan"), dtype=torch.complex64, device="cuda")
    kernels.launch_diagonal(out, a, b, c, z, causal=causal)
    # close to the real axis the recursion itself loses more digits in float32
    plain = (reference.diagonal_causal if causal else reference.diagonal_ratio)(a, b, c, z)
    assert relative_error(out, exact) < max(TOLERANCE, 2 * relative_error(plain, exact))
    again = torch.empty_like(out)
    kernels.launch_diagonal(again, a, b, c, z, causal=causal)
    assert torch.equal(torch.view_as_real(again), torch.view_as_real(out))


@pytest.mark.gpu
@pytest.mark.parametrize("z", [1j, 0.3 + 0.05j])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (130, 3), (130, 500), (3, 2048), (64, 2048)])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_every_gradient_is_right(batch: int, length: int, z: complex, batched: bool, causal: bool) -> None:
    operands = [operand.float().cuda() for operand in draw_operands(batch, length, batched=batched)]
    upstream = torch.randn(batch, length, dtype=torch.complex64, device="cuda")
    found = kernels.gradient(*operands, z, upstream, causal=causal)
    plain = reference.gradient(*operands, z, upstream, causal=causal)
    exact = reference.gradient(*(part.double() for part in operands), z, upstream.to(torch.complex128), causal=causal)

    def in_shapes_of_operands(by_a: torch.Tensor, by_k: torch.Tensor, by_z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        by_b = by_k * operands[2]
        return by_a, by_b if batched else by_b.sum(0), by_z.sum()

    by_a, by_b, _, by_z = found
    rough_and_whole = zip(in_shapes_of_operands(*plain), in_shapes_of_operands(*exact), strict=True)
    for part, (rough, whole) in zip((by_a, by_b, by_z), rough_and_whole, strict=True):
        if whole.numel():
            # sums of many signs and recursions near the real axis lose more digits in float32
            allowed = max(GRADIENT_TOLERANCE, 2 * ((rough - whole).abs().max() / whole.abs().max()).item())
            assert ((part - whole).abs().max() / whole.abs().max()).item() < allowed


@pytest.mark.gpu
@pytest.mark.parametrize("batched", [False, True])
def test_on_a_gpu_a_prepared_launch_gives_the_same_bits_wherever_its_operands_lie(batched: bool) -> None:
    a, b, c = (part.float().cuda() for part in draw_operands(130, 512, batched=batched))
    run = prepared.prepare_diagonal(a, b, c, 1j)
    inner = [part[..., 1:] for part in (a, b, c)]
    # of the same shape at a place that is not aligned
    moved = [torch.cat((part.flatten()[:1], part.flatten()))[1:].view_as(part) for part in (a, b, c)]
    for operands in (
        [a, b, c],
        [a + 1, b, c],
        inner,
        moved,
        [part[:7] if part.ndim == 2 else part for part in (a, b, c)],
    ):
        assert torch.equal(run(*operands), kernels.diagonal(*operands, 1j))


@pytest.mark.gpu
@pytest.mark.parametrize("batched", [False, True])
def test_on_a_gpu_a_prepared_gradient_gives_the_same_bits_wherever_its_operands_lie(batched: bool) -> None:
    a, b, c = (part.float().cuda() for part in draw_operands(130, 512, batched=batched))
    pairs = torch.randn(130, 512, 2, device="cuda")
    run = prepared.prepare_gradient(a, b, c, 1j, pairs, couplings=batched)
    inner = [part[:, 1:] if part.ndim > 1 else part[1:] for part in (a, b, c, pairs)]
    for operands in ([a, b, c, pairs], [a + 1, b, c, 2 * pairs], inner):
        upstream = torch.view_as_complex(operands[3].contiguous())
        wanted = kernels.gradient(*operands[:3], 1j, upstream, couplings=batched, shift=False)
        found = run(*operands)
        assert len(found) == (3 if batched else 1)
        assert all(
            torch.equal(*both) for both in zip(found, [part for part in wanted if part is not None], strict=True)
        )


@pytest.mark.gpu
def test_on_a_gpu_a_row_of_65536_and_one_that_forgets_little_are_right() -> None:
    for z in (1j, 0.3j, 0.05j):
        for batch, length in ((2, 65_536), (300, 2048)):
            a, b, c = (operand.float().cuda() for operand in draw_operands(batch, length))
            a = torch.zeros_like(a) if z == 0.3j else a
            exact = scan.diagonal_scan(a.double(), b.double(), c.double(), z)
            assert relative_error(kernels.diagonal(a, b, c, z), exact) < TOLERANCE
