"""Other packages' nearest work: ONE tridiagonal solve (H - z) x = right in complex64, on a GPU.

No library gives the diagonal of the inverse of a tridiagonal matrix. A route through a solver needs a right-hand side for each
position, so the time of one solve is a lower bound of it. Their result is held to `reference.solve_tridiagonal`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from phasewise import Program, Shape
from phasewise_studies.bk_core import reference
from phasewise_studies.bk_core.problem import Z

Batch = Mapping[str, torch.Tensor]

# cusparse<t>gtsvInterleavedBatch: 0 Thomas, 1 LU, 2 QR (cuSPARSE documentation)
INTERLEAVED_ALGORITHM = 0


def make_bands(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lower, main and upper band of H - z, each complex (batch, length), 0 where a band has no entry."""
    alpha, _ = reference.shift_and_couple(a, b, c, z)
    rows = (a.shape[0], a.shape[1] - 1)
    lower = torch.nn.functional.pad(c.expand(rows), (1, 0)).to(alpha.dtype)
    upper = torch.nn.functional.pad(b.expand(rows), (0, 1)).to(alpha.dtype)
    return lower, alpha, upper


def _wrap_cusparse() -> tuple[Any, int]:
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cusparse

    handle = device.get_cusparse_handle()
    cusparse.setStream(handle, torch.cuda.current_stream().cuda_stream)
    return cusparse, handle


def solve_strided(
    lower: torch.Tensor, main: torch.Tensor, upper: torch.Tensor, right: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """cuSPARSE cgtsv2StridedBatch: a step that overwrites and returns x; complex64 (batch, length), contiguous."""
    cusparse, handle = _wrap_cusparse()
    batch, length = main.shape
    solution = right.clone()
    sizes = (length, lower.data_ptr(), main.data_ptr(), upper.data_ptr(), solution.data_ptr(), batch, length)
    size = cusparse.cgtsv2StridedBatch_bufferSizeExt(handle, *sizes)
    buffer = torch.empty(max(size, 1), dtype=torch.uint8, device=main.device)

    # the library knows addresses only: whoever holds the step holds the bands
    held = (lower, main, upper)

    def step() -> torch.Tensor:
        assert held
        solution.copy_(right)
        cusparse.cgtsv2StridedBatch(handle, *sizes, buffer.data_ptr())
        return solution

    return step


def solve_interleaved(
    lower: torch.Tensor, main: torch.Tensor, upper: torch.Tensor, right: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """cuSPARSE cgtsvInterleavedBatch: a step that returns x as (batch, length).

    The library wants position-major operands and destroys all four, so each step copies from transposed originals,
    which are made here, outside the step.
    """
    cusparse, handle = _wrap_cusparse()
    batch, length = main.shape
    originals = torch.stack([operand.T for operand in (lower, main, upper, right)]).contiguous()
    work = originals.clone()
    pointers = [work[i].data_ptr() for i in range(4)]
    size = cusparse.cgtsvInterleavedBatch_bufferSizeExt(handle, INTERLEAVED_ALGORITHM, length, *pointers, batch)
    buffer = torch.empty(max(size, 1), dtype=torch.uint8, device=main.device)

    def step() -> torch.Tensor:
        work.copy_(originals)
        cusparse.cgtsvInterleavedBatch(handle, INTERLEAVED_ALGORITHM, length, *pointers, batch, buffer.data_ptr())
        return work[3].T

    return step


def solve_jax(lower: torch.Tensor, main: torch.Tensor, upper: torch.Tensor, right: torch.Tensor) -> Callable[[], Any]:
    """jax.lax.linalg.tridiagonal_solve: a step that returns x as a jax array (batch, length, 1), not yet waited for."""
    import jax

    operands = [jax.dlpack.from_dlpack(operand.contiguous()) for operand in (lower, main, upper, right[..., None])]
    solve = jax.jit(jax.lax.linalg.tridiagonal_solve)
    return lambda: solve(*operands)


def make_associative_scan(device: torch.device) -> Callable[..., torch.Tensor]:
    """The diagonal by torch's associative_scan of 2 x 2 matrices: the strongest form without a kernel of one's own.

    Compiled on a GPU, where each scan is one kernel; real and imaginary parts are apart, as Inductor has no complex code.
    """
    from torch._higher_order_ops.associative_scan import associative_scan

    on_gpu = device.type == "cuda"
    mode = "pointwise" if on_gpu else "generic"

    def sweep(x: torch.Tensor, k: torch.Tensor, eta: float) -> tuple[torch.Tensor, torch.Tensor]:
        zero = torch.zeros_like(x)
        lower = torch.cat((zero[:, :1], -k), dim=1)
        leaves = (x, zero - eta, lower, zero, zero + 1, zero.clone(), zero.clone(), zero.clone())
        n_re, n_im, _, _, d_re, d_im, _, _ = associative_scan(multiply_scaled, leaves, 1, combine_mode=mode)
        size = d_re * d_re + d_im * d_im
        return (n_re * d_re + n_im * d_im) / size, (n_im * d_re - n_re * d_im) / size

    def diagonal(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, energy: float, eta: float) -> torch.Tensor:
        x, k = a - energy, (b * c).expand(a.shape[0], a.shape[1] - 1)
        re, im = sweep(x, k, eta)
        back_re, back_im = sweep(x.flip(1), k.flip(1), eta)
        re, im = re + back_re.flip(1) - x, im + back_im.flip(1) + eta
        size = re * re + im * im
        return torch.stack((re / size, -im / size), dim=-1)

    return torch.compile(diagonal, dynamic=False) if on_gpu else diagonal


def multiply_scaled(first: tuple[torch.Tensor, ...], then: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """(then) x (first) of complex 2 x 2 matrices, eight real tensors each, divided by its largest part."""
    a, b = [tuple(m[i : i + 2] for i in (0, 2, 4, 6)) for m in (then, first)]
    product: list[torch.Tensor] = []
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        (ur, ui), (vr, vi), (pr, pi), (qr, qi) = a[2 * i], b[j], a[2 * i + 1], b[2 + j]
        product += [ur * vr - ui * vi + pr * qr - pi * qi, ur * vi + ui * vr + pr * qi + pi * qr]
    scale = 1 / torch.maximum(product[0].abs(), product[1].abs())
    return tuple(part * scale for part in product)


def cusparse_strided(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """One solve by cuSPARSE's cgtsv2StridedBatch, with the copy that restores what it overwrites."""
    return _solve_with(solve_strided, device)


def cusparse_interleaved(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """One solve by cuSPARSE's cgtsvInterleavedBatch, with the copies that restore what it overwrites."""
    return _solve_with(solve_interleaved, device)


def jax_solve(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """One solve by jax.lax.linalg.tridiagonal_solve under jit."""
    pending: list[Any] = []

    def step(solve: Callable[[], Any]) -> Any:
        pending[:] = [solve()]
        return pending[0]

    def sync() -> None:
        for array in pending:
            array.block_until_ready()

    program = _solve_with(solve_jax, device)
    return replace(program, step=step, sync=sync, outputs=lambda raw: {"solution": torch.from_dlpack(raw)[..., 0]})


def torch_associative_scan(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The diagonal by torch's associative_scan of 2 x 2 matrices under torch.compile."""
    scan = make_associative_scan(device)
    return Program(
        step=lambda placed: scan(placed["a"], placed["b"], placed["c"], Z.real, Z.imag),
        outputs=lambda raw: {"diagonal": torch.view_as_complex(raw)},
    )


def cusparse_strided_reference(inputs: Batch, case: str, shape: Shape) -> Program:
    """The same solve in complex128."""

    def step(placed: Batch) -> torch.Tensor:
        a, b, c = placed["a"], placed["b"], placed["c"]
        return reference.solve_tridiagonal(a, b, c, Z, a.to(torch.complex128))

    return Program(step=step, outputs=lambda raw: {"solution": raw})


cusparse_interleaved_reference = cusparse_strided_reference
jax_solve_reference = cusparse_strided_reference


def _solve_with(make: Callable[..., Callable[[], Any]], device: torch.device) -> Program:
    """A program whose placed batch is the solve of that batch: bands, right-hand side (a itself) and workspace."""

    def place(batch: Batch) -> Callable[[], Any]:
        a, b, c = (batch[name].to(device, torch.float32) for name in ("a", "b", "c"))
        return make(*(band.contiguous() for band in make_bands(a, b, c, Z)), a.to(torch.complex64))

    return Program(step=lambda solve: solve(), place=place, outputs=lambda raw: {"solution": raw})
