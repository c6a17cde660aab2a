"""The CUDA C++ kernel: its own source run by 32 threads as a warp, compiled where nvcc is, and its fallback."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from pathlib import Path

import pytest
import torch

from phasewise_studies.bk_core import kernels, reference, scan
from phasewise_studies.bk_core.kernels import extension
from phasewise_studies.bk_core.tests.operands import draw_operands, relative_error

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def warp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.cuh, compiled for this CPU."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++ (apt-get install g++)")
    program = tmp_path_factory.mktemp("warp") / "warp"
    subprocess.run(
        [
            compiler,
            "-std=c++20",
            "-O1",
            "-pthread",
            f"-I{extension.SOURCES}",
            "-o",
            program,
            HERE / "emulated_warp.cpp",
        ],
        check=True,
    )
    return program


def run_warp(
    program: Path, operands: list[torch.Tensor], z: complex, *, causal: bool = False, sharp: bool = False
) -> torch.Tensor:
    batch, length = operands[0].shape
    words = [str(word) for word in (batch, length, z.real, z.imag, int(causal), int(sharp))]
    given = b"".join(part.numpy().tobytes() for part in operands)
    ran = subprocess.run([program, *words], input=given, capture_output=True, check=True, timeout=60)
    return torch.frombuffer(bytearray(ran.stdout), dtype=torch.complex64).view(batch, length)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 3), (3, 127), (2, 512), (2, 513), (3, 1100), (1, 2048)])
def test_the_kernel_is_right_at_any_length_and_writes_every_entry(
    warp: Path, batch: int, length: int, causal: bool
) -> None:
    operands = [part.float() for part in draw_operands(batch, length)]
    exact = scan.diagonal_scan(*(part.double() for part in operands), 1j, causal=causal)
    assert relative_error(run_warp(warp, operands, 1j, causal=causal), exact) < 2e-6


@pytest.mark.parametrize("causal", [False, True])
def test_what_forgets_little_is_done_over_exactly(warp: Path, causal: bool) -> None:
    a, b, c = (part.float() for part in draw_operands(1, 1600))
    for operands, z, sharp in (([a, b, c], 0.3 + 0.05j, True), ([0 * a, b, c], 0.02j, False)):
        exact = scan.diagonal_scan(*(part.double() for part in operands), z, causal=causal)
        plain = scan.diagonal_scan(*operands, z, causal=causal)
        error = relative_error(run_warp(warp, operands, z, causal=causal, sharp=sharp), exact)
        assert error < max(4e-6, 4 * relative_error(plain, exact))


def test_negative_couplings_have_no_bound_and_are_still_right(warp: Path) -> None:
    a, b, c = (part.float() for part in draw_operands(2, 1100))
    b[300:310] *= -1
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), 1j)
    assert relative_error(run_warp(warp, [a, b, c], 1j), exact) < 4e-6


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_it_compiles_for_machines_that_are_not_here(architecture: str, tmp_path: Path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("needs nvcc (the CUDA toolkit)")
    ran = subprocess.run(
        [compiler, f"-arch={architecture}", "-O3", "-cubin", "-o", tmp_path / "rows.cubin", extension.SOURCES / "rows.cu"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "rows.cubin").stat().st_size > 10_000


def test_without_a_gpu_it_falls_back_with_a_warning_that_says_why() -> None:
    extension._warn_once.cache_clear()
    a, b, c = (part.float() for part in draw_operands(2, 40))
    with pytest.warns(UserWarning, match="is not used, its fallback is: no NVIDIA GPU"):
        found = extension.diagonal(a, b, c, 1j)
    assert relative_error(found, reference.diagonal_ratio(a.double(), b.double(), c.double(), 1j)) < 2e-6
    # once a reason, not once a call
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extension.diagonal(a, b, c, 1j)


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError("nvcc was not found"), "the build failed: nvcc was not found"),
     (RuntimeError("Error building extension\nlong log"), "the build failed: Error building extension")],
)  # fmt: skip
def test_a_failed_build_is_a_reason_in_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(extension, "build_extension", fail)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert extension.why_not("cuda") == reason


@pytest.mark.gpu
@pytest.mark.parametrize("z", [1j, 0.3 + 0.05j])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (130, 3), (130, 501), (3, 2048), (2, 9001), (4096, 2048)])
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_the_extension_is_built_and_right(batch: int, length: int, z: complex, causal: bool) -> None:
    assert extension.why_not("cuda") == ""
    a, b, c = (part.float().cuda() for part in draw_operands(batch, length))
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), z, causal=causal)
    assert relative_error(extension.diagonal(a, b, c, z, causal=causal), exact) < 4e-6


@pytest.mark.gpu
def test_on_a_gpu_batched_couplings_go_to_the_triton_kernel() -> None:
    a, b, c = (part.float().cuda() for part in draw_operands(3, 40, batched=True))
    assert torch.equal(extension.diagonal(a, b, c, 1j), kernels.diagonal(a, b, c, 1j))
