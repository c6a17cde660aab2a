"""The kernels: in Triton's interpreter, and compiled to machine code for GPUs that are not here."""

from __future__ import annotations

import pytest
import torch

from phasewise_studies.testing import interpret_once

# float32 rounds at 6e-8 and dx is a difference; bfloat16 keeps 8 digits, of which the interpreter cuts off the rest: a GPU rounds
TOLERANCES = {"float32": 2e-6, "bfloat16": 2.0**-7}


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float] | bool]:
    """What each case gave."""
    return interpret_once(tmp_path_factory, "phasewise_studies.layer_norm.tests.interpret_kernels")


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_every_shape_and_layout_agrees_with_float64(interpreted, dtype: str) -> None:
    measured = {name: case for name, case in interpreted.items() if name.endswith(dtype) and "large-mean" not in name}
    assert len(measured) == 9 + 4
    assert {name: case for name, case in measured.items() if not max(case.values()) < TOLERANCES[dtype]} == {}


def test_a_large_mean_costs_no_more_than_its_own_rounding(interpreted) -> None:
    # float32 rounds numbers near 100 by 4e-6; a variance from two sums would be off by 1e-3
    assert max(interpreted["large-mean-float32"].values()) < 1e-5


@pytest.mark.parametrize("name", ["empty", "repeats", "nan"])
def test_edges_are_right(interpreted, name: str) -> None:
    assert interpreted[name] is True


TYPES = {"x_stride": "i32", "dy_stride": "i32", "rows": "i32", "epsilon": "fp32"}


def compile_kernel(name: str, width: int, dtype: str, capability: int):
    """Machine code of one kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from phasewise_studies.layer_norm.kernels import rows

    kernel = getattr(rows, name)
    options = rows.choose_block(width)
    warps = options.pop("num_warps")
    constants = {n: value for n, value in (options | {"PROGRAMS": 256}).items() if n in kernel.arg_names}
    wide = ("mean", "rstd", "partial")
    signature = {
        n: "constexpr" if n in constants else TYPES.get(n, "*fp32" if n in wide else f"*{dtype}")
        for n in kernel.arg_names
    }
    at = {n: (i,) for i, n in enumerate(kernel.arg_names)}
    aligned = {at[n]: [["tt.divisibility", 16]] for n, kind in signature.items() if kind.startswith("*")}
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("capability", "width", "dtype"), [(75, 1000, "fp32"), (80, 45, "bf16"), (90, 4096, "fp32")])
@pytest.mark.parametrize("name", ["normalise_kernel", "differentiate_kernel"])
def test_the_kernels_compile_without_a_gpu(name: str, capability: int, width: int, dtype: str) -> None:
    assert len(compile_kernel(name, width, dtype, capability).asm["cubin"]) > 1000


def test_float64_is_refused() -> None:
    from phasewise_studies.layer_norm.kernels.rows import LayerNorm

    operands = [torch.ones(size, dtype=torch.float64) for size in ((2, 3), (3,), (3,))]
    with pytest.raises(AssertionError, match="float32"):
        LayerNorm.apply(*operands)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("rows", "width"), [(1, 1), (3, 3), (7, 129), (1000, 1000), (8192, 4096), (3, 16384), (3, 40000)]
)
def test_on_a_gpu_every_shape_agrees_with_float64_and_repeats_its_bits(rows: int, width: int, dtype: str) -> None:
    from phasewise import Shape
    from phasewise_studies.layer_norm import program
    from phasewise_studies.layer_norm.tests.interpret_kernels import DTYPES, draw, run

    operands = draw(rows, width, DTYPES[dtype])
    batch = {name: part.double() for name, part in zip(("x", "w", "b", "dy"), operands, strict=True)}
    exact = program.reference(batch, "train", Shape()).step(batch)
    found, again = (run(*(part.cuda() for part in operands)) for _ in range(2))
    for name, whole in exact.items():
        # dx of a row of one number is a difference of terms near 1 that cancel to 0
        scale = float(whole.abs().max()) or 1.0
        assert float((found[name].cpu().double() - whole).abs().max()) < TOLERANCES[dtype] * scale, name
        assert torch.equal(found[name], again[name]), name
