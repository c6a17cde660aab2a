"""The diagonal of (H - z)^-1 and its gradient by the fused Triton kernels, or by the reference where there is no kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from phasewise.kit.kernels import has_kernel, is_interpreted, launch_and_keep
from phasewise_studies.bk_core import reference
from phasewise_studies.bk_core.kernels.launch import LANES, Launch, choose_launch

# below this |Im z| little is forgotten and substitution loses digits: every program takes the exact way, in the ratio form
SHARP_BELOW = 0.25
# registers a thread at which 16 programs of one warp share a multiprocessor; without a limit the compiler takes 160
REGISTERS = 128


def diagonal(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex | torch.Tensor,
    *,
    causal: bool = False,
    launch: Launch | None = None,
) -> torch.Tensor:
    """diag((H - z)^-1) of H = tridiag(c, a, b), or of every leading block if `causal`, as complex (batch, length).

    a is real (batch, length); b and c are real, shared (length - 1,) or batched (batch, length - 1); any strides. z is a
    number, or complex (), (batch,); its imaginary part must not be 0. Anything but float32 on a device with a kernel is
    answered by the reference (see `has_kernel`).
    """
    reference.check_operands(a, b, c, z)
    if a.numel() == 0 or not has_kernel(a.device, a.dtype):
        return (reference.diagonal_causal if causal else reference.diagonal_ratio)(a, b, c, z)
    out = torch.empty(a.shape, dtype=torch.complex64, device=a.device)
    launch_diagonal(out, a, b, c, z, causal=causal, launch=launch)
    return out


def launch_diagonal(
    out: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex | torch.Tensor,
    *,
    causal: bool = False,
    launch: Launch | None = None,
) -> None:
    """Write the diagonal into `out`, complex64 (batch, length), contiguous; operands as for `diagonal`, not checked."""
    launch_diagonal_and_keep(out, a, b, c, z, causal, launch)


def launch_diagonal_and_keep(
    out: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex | torch.Tensor,
    causal: bool,
    launch: Launch | None,
) -> tuple[Callable[..., None], tuple[int, ...]]:
    """Launch, and return how to do it again with (out, states, a, b, c, shift), and the size of the states."""
    from phasewise_studies.bk_core.kernels import forward

    batch, length = a.shape
    shift = _pass_shift(z, a)
    if launch is None:
        launch = choose_launch(batch, length, eta=shift.typical_eta)
    chunks, parts = -(-length // launch.chunk), launch.count_parts(length)
    size = (batch, -(-chunks // LANES), 2, LANES)
    again = launch_and_keep(
        forward.diagonal_kernel,
        (batch, parts),
        (torch.view_as_real(out), torch.empty(size, dtype=torch.float32, device=a.device), a, b, c, shift.pairs),
        (shift.energy, shift.eta, length, chunks, launch.span, *a.stride(), *_strides(b), *_strides(c), shift.stride),
        {
            "CHUNK": launch.chunk, "VIEW": launch.view, "ALONE": parts == 1, "CAUSAL": causal, "SHARP": shift.sharp,
            "ROW_Z": shift.by_row, "PTX": not is_interpreted(),
        },
        num_warps=1, maxnreg=REGISTERS,
    )  # fmt: skip
    return again, size


def gradient(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex | torch.Tensor,
    upstream: torch.Tensor,
    *,
    causal: bool = False,
    couplings: bool = True,
    shift: bool = True,
    launch: Launch | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """dL/da, dL/db, dL/dc, dL/dz from `upstream` = dL/dRe G + i dL/dIm G; b, c or z only if asked for, in their own shapes.

    A number z gets a gradient of shape (). Where there is no kernel, `reference.gradient` answers.
    """
    if a.numel() == 0 or not has_kernel(a.device, a.dtype):
        by_a, by_k, by_z = reference.gradient(a, b, c, z, upstream, causal=causal)
        by_b, by_c = (_sum_to(by_k * c, b), _sum_to(by_k * b, c)) if couplings else (None, None)
        return by_a, by_b, by_c, _shape_like(by_z, z) if shift else None
    return launch_gradient(a, b, c, z, upstream, causal=causal, couplings=couplings, shift=shift, launch=launch)


def launch_gradient(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex | torch.Tensor,
    upstream: torch.Tensor,
    *,
    causal: bool = False,
    couplings: bool = True,
    shift: bool = True,
    launch: Launch | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """`gradient` by the kernel."""
    # pairs must lie side by side; rows may lie anywhere
    pairs = torch.view_as_real(upstream.resolve_conj())
    if pairs.stride(1) != 2:
        pairs = pairs.contiguous()
    cut = choose_gradient_launch(a, z) if launch is None else launch
    outputs = make_gradients(a, b, c, cut, couplings=couplings, shift=shift)
    launch_gradient_and_keep(outputs, pairs, a, b, c, z, causal, couplings, shift, cut)
    by_a, by_b, by_c, sums, _ = outputs
    found_b = found_c = found_z = None
    if couplings and is_shared(b, c):
        by_k = by_b[:, :-1].sum(0)
        found_b, found_c = by_k * c, by_k * b
    elif couplings:
        found_b, found_c = _sum_to(by_b[:, :-1], b), _sum_to(by_c[:, :-1], c)
    if shift:
        found_z = _shape_like(-torch.view_as_complex(sums).sum(1).conj().resolve_conj(), z)
    return by_a, found_b, found_c, found_z


def make_gradients(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, launch: Launch, *, couplings: bool, shift: bool
) -> tuple[torch.Tensor, ...]:
    """What the kernel writes: gradients for a, b and c in rows as long as those of a, sums for z, and its states.

    Rows of that length are aligned as those of a are. What is not asked for is never written, and any tensor will do.
    """
    batch, length = a.shape
    by_a = torch.empty_like(a, memory_format=torch.contiguous_format)
    by_b = a.new_empty(batch, length) if couplings else by_a
    by_c = a.new_empty(batch, length) if couplings and not is_shared(b, c) else by_a
    sums = a.new_empty(batch, launch.count_parts(length), 2) if shift else by_a
    chunks = -(-length // launch.chunk)
    return by_a, by_b, by_c, sums, a.new_empty(batch, -(-chunks // LANES), 4, LANES)


def launch_gradient_and_keep(
    outputs: tuple[torch.Tensor, ...],
    pairs: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex | torch.Tensor,
    causal: bool,
    couplings: bool,
    shift: bool,
    launch: Launch,
) -> Callable[..., None]:
    """Launch into `make_gradients`, and return how to do it again with (*outputs, pairs, a, b, c, shift)."""
    from phasewise_studies.bk_core.kernels import adjoint

    batch, length = a.shape
    where = _pass_shift(z, a)
    chunks, parts = -(-length // launch.chunk), launch.count_parts(length)
    return launch_and_keep(
        adjoint.gradient_kernel,
        (batch, parts),
        (*outputs, pairs, a, b, c, where.pairs),
        (
            where.energy, where.eta, length, chunks, launch.span,
            pairs.stride(0), 1, *a.stride(), *_strides(b), *_strides(c), where.stride,
        ),
        {
            "CHUNK": launch.chunk, "VIEW": launch.view, "ALONE": parts == 1, "CAUSAL": causal, "SHARP": where.sharp,
            "ROW_Z": where.by_row, "COUPLINGS": couplings, "SHARED": is_shared(b, c), "SHIFT": shift,
            "PTX": not is_interpreted(),
        },
        num_warps=1, maxnreg=REGISTERS,
    )  # fmt: skip


def is_shared(b: torch.Tensor, c: torch.Tensor) -> bool:
    """Whether all rows have the same couplings."""
    return b.ndim == 1 and c.ndim == 1


def choose_gradient_launch(a: torch.Tensor, z: complex | torch.Tensor) -> Launch:
    """The usual launch of the gradient; the values of a tensor z are not looked at."""
    return choose_launch(*a.shape, eta=_pass_shift(z, a).typical_eta, gradient=True)


def _sum_to(by_row: torch.Tensor, couplings: torch.Tensor) -> torch.Tensor:
    return by_row.sum(0) if couplings.ndim == 1 else by_row


def _shape_like(by_row: torch.Tensor, z: complex | torch.Tensor) -> torch.Tensor:
    if isinstance(z, torch.Tensor) and z.ndim == 1:
        return by_row if len(z) == len(by_row) else by_row.sum(0, keepdim=True)
    return by_row.sum()


@dataclass(frozen=True)
class Shift:
    """z as a kernel takes it: two numbers, or a tensor of pairs with one for each row."""

    pairs: torch.Tensor
    stride: int
    energy: float
    eta: float

    @property
    def by_row(self) -> bool:
        return self.eta == 0.0

    @property
    def typical_eta(self) -> float:
        return self.eta or 1.0

    @property
    def sharp(self) -> bool:
        """Whether to take the exact way; a tensor's values are not looked at, since that would wait for the device."""
        return abs(self.eta) < SHARP_BELOW


def _pass_shift(z: complex | torch.Tensor, a: torch.Tensor) -> Shift:
    if isinstance(z, torch.Tensor):
        pairs = torch.view_as_real(z.detach().to(torch.complex64).resolve_conj()).contiguous()
        return Shift(pairs, 2 if z.ndim == 1 and len(z) > 1 else 0, 0.0, 0.0)
    # never read: any tensor will do
    return Shift(a, 0, z.real, z.imag)


def _strides(couplings: torch.Tensor) -> tuple[int, int]:
    # a shared vector is a matrix whose rows are all at the same place
    return (0, couplings.stride(0)) if couplings.ndim == 1 else (couplings.stride(0), couplings.stride(1))
