"""The diagonal of (H - z)^-1 by the fused Triton kernel, or by the reference where there is no kernel."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import dataclass

import torch

from phasewise.records.errors import UserError
from phasewise.workloads.bk_core import reference

# more chunks than this in one program leave too few registers a thread; a longer row is cut into tiles
MOST_CHUNKS = 256
# below this |Im z|, forgetting takes so many hops between neighbours that a scan is faster; either is exact
SCAN_BELOW = 0.25
# above this many positions a launch fills the device, and longer chunks mean less work at their ends
FILLS_THE_DEVICE = 1 << 20


@dataclass(frozen=True)
class Launch:
    """How the work is cut: positions a chunk (one thread), chunks a program, rows side by side and in turn, tiles a row."""

    chunk: int
    chunks: int
    rows: int = 1
    turns: int = 1
    tiles: int = 1

    @property
    def warps(self) -> int:
        """One lane a thread: the exchange between neighbours stands on it."""
        return self.rows * self.chunks // 32


def choose_launch(
    batch: int, length: int, *, shared: bool, chunk: int | None = None, turns: int | None = None
) -> Launch:
    """The launch for `batch` rows of `length` positions; `chunk` (4, 8, 16 or 32) and `turns` override the choice."""
    if chunk is None:
        chunk = 8 if batch * length < FILLS_THE_DEVICE and length <= 8 * MOST_CHUNKS else 16
    chunks = min(1 << (-(-length // chunk) - 1).bit_length(), MOST_CHUNKS)
    tiles = -(-length // (chunk * chunks))
    if tiles > 1:
        return Launch(chunk, chunks, tiles=tiles)
    rows = max(1, 32 // chunks)
    if turns is None:
        # shared couplings are loaded once for all turns
        turns = 8 if shared and batch * length >= FILLS_THE_DEVICE and batch >= 4096 * rows else 1
    return Launch(chunk, chunks, rows, turns)


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def is_interpreted() -> bool:
    """Whether Triton runs kernels in its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def has_kernel(device: torch.device | str, dtype: torch.dtype = torch.float32) -> bool:
    """Whether `diagonal` uses the kernel for a tensor on this device; False means the reference answers: a fallback."""
    device = torch.device(device)
    if dtype != torch.float32 or not _has_triton():
        return False
    if is_interpreted():
        return True
    # compute capability 7.5 is the oldest for which the kernels are compiled in the tests
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (7, 5)


def diagonal(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex,
    *,
    causal: bool = False,
    launch: Launch | None = None,
) -> torch.Tensor:
    """diag((H - z)^-1) of H = tridiag(c, a, b), or of every leading block if `causal`, as complex (batch, length).

    a is real (batch, length); b and c are real, shared (length - 1,) or batched (batch, length - 1); any strides.
    Im z must not be 0. Anything but float32 on a device with a kernel is answered by the reference (see `has_kernel`).
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
    z: complex,
    *,
    causal: bool = False,
    launch: Launch | None = None,
) -> None:
    """Write the diagonal into `out`, complex64 (batch, length), contiguous; operands as for `diagonal`, not checked."""
    from phasewise.workloads.bk_core import fused

    batch, length = a.shape
    shared = b.ndim == 1 and c.ndim == 1
    if launch is None:
        launch = choose_launch(batch, length, shared=shared)
    if launch.rows * launch.chunks % 32 or (launch.tiles > 1 and launch.rows * launch.turns > 1):
        raise UserError(
            f"bk_core launch {launch}: rows x chunks must be a multiple of 32, and a row in tiles is alone in its program."
        )
    coupling_strides = (*_strides(b), *_strides(c))
    # the grid is (programs, tiles); arguments go by position, which is the faster way through Triton's launcher
    tiles, ptx = launch.tiles, not is_interpreted()
    products = out
    if tiles > 1:
        products = torch.empty((batch, tiles, 8), dtype=torch.float32, device=a.device)
        fused.tile_product_kernel[(batch, tiles)](
            products, a, b, c, z.real, z.imag, length, tiles, *a.stride(), *coupling_strides,
            CHUNKS=launch.chunks, CHUNK=launch.chunk, num_warps=launch.warps,
        )  # fmt: skip
    programs = -(-batch // (launch.rows * launch.turns))
    fused.diagonal_forward_kernel[(programs, tiles)](
        torch.view_as_real(out), a, b, c, products if tiles > 1 else a, z.real, z.imag, batch, length, tiles,
        *a.stride(), *coupling_strides,
        ROWS=launch.rows, TURNS=launch.turns, CHUNKS=launch.chunks, CHUNK=launch.chunk, SHARED=shared, CAUSAL=causal,
        TILED=tiles > 1, EVEN=length == tiles * launch.chunks * launch.chunk, SCAN=abs(z.imag) < SCAN_BELOW,
        PTX=ptx, num_warps=launch.warps,
    )  # fmt: skip


def _strides(couplings: torch.Tensor) -> tuple[int, int]:
    # a shared vector is a matrix whose rows are all at the same place
    return (0, couplings.stride(0)) if couplings.ndim == 1 else (couplings.stride(0), couplings.stride(1))
