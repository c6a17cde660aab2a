"""The fused kernel: in Triton's interpreter, and compiled to machine code for GPUs that are not here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phasewise.records.errors import UserError
from phasewise.workloads.bk_core import kernels, scan
from phasewise.workloads.bk_core.kernels import Launch, choose_launch
from workloads.bk_core.operands import draw_operands, relative_error

TESTS = Path(__file__).parents[2]
# resnet_bk.md, section 1.A: fp32 forward, maximum relative error
TOLERANCE = 2e-6


@pytest.fixture(scope="module")
def interpreted() -> dict[str, dict[str, float | bool]]:
    """What each case gave in a process of its own: the switch must stand before triton is imported."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join((str(TESTS), *sys.path))}
    ran = subprocess.run(
        [sys.executable, "-m", "workloads.bk_core.interpret_kernels"],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_size_agrees_with_float64_repeats_its_bits_and_obeys_the_theorem(interpreted) -> None:
    measured = {name: case for name, case in interpreted.items() if "error" in case}
    assert len(measured) == 9 + 8 + 6
    wrong = {n: c for n, c in measured.items() if not (c["error"] < TOLERANCE and c["repeats"] and c["bounded"])}
    assert not wrong


@pytest.mark.parametrize("name", ["nan", "nan-scan", "empty", "float64", "negative-couplings"])
def test_edges_are_right(interpreted, name: str) -> None:
    assert interpreted[name]["right"]


def test_without_a_kernel_the_reference_answers_and_says_so() -> None:
    assert not kernels.has_kernel("cpu")
    a, b, c = (operand.float() for operand in draw_operands(3, 40))
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), 1j)
    assert relative_error(kernels.diagonal(a, b, c, 1j), exact) < TOLERANCE


@pytest.mark.parametrize("length", [1, 2, 3, 5, 31, 128, 500, 2048, 4096, 4097, 9001, 65536])
@pytest.mark.parametrize("batch", [1, 130, 70_000])
def test_a_launch_covers_the_row_and_has_one_lane_a_thread(length: int, batch: int) -> None:
    launch = choose_launch(batch, length, shared=True)
    assert launch.chunk * launch.chunks * launch.tiles >= length
    assert launch.warps * 32 == launch.rows * launch.chunks
    assert 1 <= launch.warps <= 8


def test_a_launch_that_breaks_the_exchange_is_refused() -> None:
    a, b, c = (operand.float() for operand in draw_operands(3, 40))
    out = torch.empty(3, 40, dtype=torch.complex64)
    with pytest.raises(UserError, match="multiple of 32"):
        kernels.launch_diagonal(out, a, b, c, 1j, launch=Launch(16, 4))


# between them the three meet every branch of the kernel
SHAPES = {
    75: {"SHARED": True, "CAUSAL": True, "CHUNKS": 1, "ROWS": 32, "EVEN": False},
    80: {"SHARED": False, "SCAN": True, "TILED": True, "EVEN": False},
    90: {"SHARED": True, "TURNS": 8, "CHUNKS": 128, "CHUNK": 16},
}


def compile_kernel(name: str, constants: dict[str, int | bool], capability: int):
    """Machine code of one kernel of fused.py."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from phasewise.workloads.bk_core import fused

    kernel = getattr(fused, name)
    pointers, floats = ("out", "products", "a", "b", "c"), ("energy", "eta")
    constants = constants | {"stride_an": 1, "stride_bn": 1, "stride_cn": 1}
    signature = {
        n: "constexpr" if n in constants else "*fp32" if n in pointers else "fp32" if n in floats else "i32"
        for n in kernel.arg_names
    }
    at = {n: (i,) for i, n in enumerate(kernel.arg_names)}
    aligned = {at[n]: [["tt.divisibility", 16]] for n in (*pointers, "length", "stride_ab") if n in at}
    source = ASTSource(kernel, signature, {at[n]: value for n, value in constants.items()}, aligned)
    warps = constants["CHUNKS"] * constants.get("ROWS", 1) // 32
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("capability", SHAPES)
def test_the_kernel_compiles_without_a_gpu(capability: int) -> None:
    defaults = {"ROWS": 1, "TURNS": 1, "CHUNKS": 32, "CHUNK": 4, "CAUSAL": False, "TILED": False, "EVEN": True,
                "SCAN": False, "PTX": True}  # fmt: skip
    compiled = compile_kernel("diagonal_forward_kernel", defaults | SHAPES[capability], capability)
    assert len(compiled.asm["cubin"]) > 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("capability", SHAPES)
def test_the_tile_product_compiles_without_a_gpu(capability: int) -> None:
    compiled = compile_kernel("tile_product_kernel", {"CHUNKS": 32, "CHUNK": 4}, capability)
    assert len(compiled.asm["cubin"]) > 1000


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("causal", [False, True])
def test_threads_are_not_parted_around_the_barriers_of_the_hops(causal: bool) -> None:
    constants = {"ROWS": 1, "TURNS": 1, "CHUNKS": 32, "CHUNK": 4, "SHARED": True, "CAUSAL": causal, "TILED": False,
                 "EVEN": True, "SCAN": False, "PTX": True}  # fmt: skip
    # a second copy of the exchange means that the loop was split by a condition that differs between threads
    assert compile_kernel("diagonal_forward_kernel", constants, 90).asm["ptx"].count(".b8 box[") == 1


@pytest.mark.gpu
@pytest.mark.parametrize("z", [1j, 0.3 + 0.05j])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (130, 3), (130, 500), (3, 2048), (2, 9001), (4096, 2048)])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_every_entry_is_written_and_right(
    batch: int, length: int, z: complex, batched: bool, causal: bool
) -> None:
    a, b, c = (operand.float().cuda() for operand in draw_operands(batch, length, batched=batched))
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), z, causal=causal)
    out = torch.full((batch, length), float("nan"), dtype=torch.complex64, device="cuda")
    kernels.launch_diagonal(out, a, b, c, z, causal=causal)
    assert relative_error(out, exact) < TOLERANCE
