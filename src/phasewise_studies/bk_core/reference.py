"""The diagonal of (H - z)^-1 in plain PyTorch: dense inverse, ratio recursion, and the textbook form that overflows.

H = tridiag(c, a, b) has a on the diagonal, b above and c below it; alpha_i = a_i - z and k_i = b_i c_i. a is real
(batch, length); b and c are real, shared (length - 1,) or batched (batch, length - 1). The dtype of a decides:
float64 gives complex128 (the reference), float32 gives complex64 (the baseline). Positions are taken one by one,
so these are slow; they are kept because there is nothing in them to get wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from phasewise import Program, Shape
from phasewise.records.errors import UserError
from phasewise_studies.bk_core.problem import Z, differentiated, is_backward, is_causal, name_outputs


def reference(
    inputs: Mapping[str, torch.Tensor], case: str, shape: Shape, items: torch.Tensor | None = None
) -> Program:
    """The ratio recursion or the analytic gradient in complex128, for all sequences or for the sequences `items`."""

    def choose(part: torch.Tensor) -> torch.Tensor:
        return part if items is None or part.dim() == 1 else part[items]

    def step(placed: Mapping[str, torch.Tensor]) -> Any:
        a, b, c = (choose(placed[name]) for name in ("a", "b", "c"))
        if not is_backward(case):
            return (diagonal_causal if is_causal(case) else diagonal_ratio)(a, b, c, Z)
        by_a, by_k, _ = gradient(a, b, c, Z, torch.view_as_complex(choose(placed["upstream"])))
        by_all = {"grad/a": by_a, "grad/b": by_k * c, "grad/c": by_k * b}
        return {f"grad/{name}": by_all[f"grad/{name}"] for name in differentiated(shape)}

    return Program(step=step, outputs=name_outputs)


def check_operands(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor) -> None:
    """Raise UserError where shapes, dtypes or z are not what this module's docstring says."""
    if a.ndim != 2 or not a.is_floating_point():
        raise UserError(f"bk_core a is {a.dtype} {tuple(a.shape)}: it must be a real (batch, length) tensor.")
    batch, length = a.shape
    couplings = max(length - 1, 0)
    for name, tensor in (("b", b), ("c", c)):
        if tuple(tensor.shape) not in ((couplings,), (batch, couplings)):
            raise UserError(
                f"bk_core {name} has shape {tuple(tensor.shape)}: it must be ({couplings},) or ({batch}, {couplings})."
            )
        if tensor.dtype != a.dtype or tensor.device != a.device:
            raise UserError(
                f"bk_core {name} is {tensor.dtype} on {tensor.device}: it must be {a.dtype} on {a.device}, as a is."
            )
    if isinstance(z, torch.Tensor):
        if tuple(z.shape) not in ((), (1,), (batch,)) or not z.is_complex() or z.device != a.device:
            raise UserError(
                f"bk_core z is {z.dtype} {tuple(z.shape)} on {z.device}: it must be complex () or ({batch},) on {a.device}."
            )
    elif z.imag == 0:
        raise UserError(f"bk_core z = {z}: on the real axis G has poles; its imaginary part must not be 0.")


def shift_and_couple(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """alpha = a - z, complex (batch, length), and k = b c, real (batch, length - 1)."""
    k = (b * c).expand(a.shape[0], max(a.shape[1] - 1, 0))
    if not isinstance(z, torch.Tensor):
        z = torch.tensor(z, dtype=a.dtype.to_complex(), device=a.device)
    return a - z.to(a.dtype.to_complex()).reshape(-1, 1), k


def left_pivots(alpha: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """d_i = alpha_i - k_{i-1}/d_{i-1}: the pivots of elimination from the left."""
    pivots = [alpha[:, 0]]
    for i in range(1, alpha.shape[1]):
        pivots.append(alpha[:, i] - k[:, i - 1] / pivots[-1])
    return torch.stack(pivots, dim=1)


def diagonal_ratio(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor) -> torch.Tensor:
    """G_ii = 1/(d_i + e_i - alpha_i) with the left pivots d and the right pivots e."""
    alpha, k = shift_and_couple(a, b, c, z)
    if a.numel() == 0:
        return torch.empty_like(alpha)
    right_pivots = left_pivots(alpha.flip(1), k.flip(1)).flip(1)
    return 1 / (left_pivots(alpha, k) + right_pivots - alpha)


def diagonal_causal(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor) -> torch.Tensor:
    """1/d_i: the last diagonal entry of (H_{0..i} - z)^-1, which no later position can change."""
    alpha, k = shift_and_couple(a, b, c, z)
    return torch.empty_like(alpha) if a.numel() == 0 else 1 / left_pivots(alpha, k)


def diagonal_textbook(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor) -> torch.Tensor:
    """G_ii = theta_i phi_{i+1}/theta_N with unscaled determinants, which grow like |root|^N.

    Not for use: in complex64 it overflows from about 128 positions on, in complex128 from about 960.
    """
    alpha, k = shift_and_couple(a, b, c, z)
    if a.numel() == 0:
        return torch.empty_like(alpha)
    theta = _determinants(alpha, k)
    phi = _determinants(alpha.flip(1), k.flip(1)).flip(1)
    return theta[:, :-1] * phi[:, 1:] / theta[:, -1:]


def _determinants(alpha: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    # theta_0 = 1, theta_1 = alpha_0, theta_{i+1} = alpha_i theta_i - k_{i-1} theta_{i-1}
    theta = [torch.ones_like(alpha[:, 0]), alpha[:, 0]]
    for i in range(1, alpha.shape[1]):
        theta.append(alpha[:, i] * theta[-1] - k[:, i - 1] * theta[-2])
    return torch.stack(theta, dim=1)


def dense_matrix(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor) -> torch.Tensor:
    """H - z as complex (batch, length, length): for small lengths."""
    alpha, _ = shift_and_couple(a, b, c, z)
    rows = (a.shape[0], max(a.shape[1] - 1, 0))
    above = torch.diag_embed(b.expand(rows), offset=1)[:, : a.shape[1], : a.shape[1]]
    below = torch.diag_embed(c.expand(rows), offset=-1)[:, : a.shape[1], : a.shape[1]]
    return torch.diag_embed(alpha) + above + below


def diagonal_dense(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor) -> torch.Tensor:
    """The diagonal of the dense inverse: for small lengths."""
    if a.numel() == 0:
        return torch.empty(a.shape, dtype=a.dtype.to_complex(), device=a.device)
    return torch.linalg.inv(dense_matrix(a, b, c, z)).diagonal(dim1=1, dim2=2)


def solve_tridiagonal(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """x with (H - z) x = right, complex (batch, length), by elimination without pivoting: what the peers are held to."""
    alpha, k = shift_and_couple(a, b, c, z)
    rows = (a.shape[0], max(a.shape[1] - 1, 0))
    above, below = b.expand(rows), c.expand(rows)
    pivots = left_pivots(alpha, k)
    eliminated = [right[:, 0]]
    for i in range(1, a.shape[1]):
        eliminated.append(right[:, i] - below[:, i - 1] / pivots[:, i - 1] * eliminated[-1])
    solution = [eliminated[-1] / pivots[:, -1]]
    for i in range(a.shape[1] - 2, -1, -1):
        solution.append((eliminated[i] - above[:, i] * solution[-1]) / pivots[:, i])
    return torch.stack(solution[::-1], dim=1)


def gradient(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor, upstream: torch.Tensor,
    *, causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """dL/da (batch, length), dL/dk (batch, length - 1) for k = b c, and dL/dz (batch,), exactly, in O(N).

    `upstream` is dL/dRe G + i dL/dIm G, as autograd has it, and so is dL/dz. With w its conjugate, m = 1/d, f = k m^2:
    u_i = w_i + f_{i-1} u_{i-1} from the left, then v_i = f_i v_{i+1} - m_i (2 G_i - m_i) u_i from the right;
    dL/da_i = Re v_i, dL/dk_i = Re[m_i (u_i m_i G_{i+1} - v_{i+1})], dL/dz = -conj(sum v). Causal, where G is m:
    v_i = f_i v_{i+1} - m_i^2 w_i and dL/dk_i = -Re[m_i v_{i+1}]. This is the reverse of d_i = alpha_i - k_{i-1} m_{i-1} and
    G_i = m_i + f_i G_{i+1}.
    """
    alpha, k = shift_and_couple(a, b, c, z)
    if a.numel() == 0:
        return torch.zeros_like(a), torch.zeros_like(k), alpha.sum(1)
    w, m = upstream.conj().resolve_conj(), 1 / left_pivots(alpha, k)
    f = k * m[:, :-1] * m[:, :-1]
    length = a.shape[1]
    if causal:
        source = -m * m * w
    else:
        g, u = [m[:, -1]], [w[:, 0]]
        for i in range(length - 1):
            g.append(m[:, -2 - i] + f[:, -1 - i] * g[-1])
            u.append(w[:, i + 1] + f[:, i] * u[-1])
        gs, us = torch.stack(g[::-1], dim=1), torch.stack(u, dim=1)
        source = -m * (2 * gs - m) * us
    v = [source[:, -1]]
    for i in range(length - 2, -1, -1):
        v.append(source[:, i] + f[:, i] * v[-1])
    vs = torch.stack(v[::-1], dim=1)
    by_k = -m[:, :-1] * vs[:, 1:]
    if not causal:
        by_k = by_k + us[:, :-1] * m[:, :-1] * m[:, :-1] * gs[:, 1:]
    return vs.real, by_k.real, -vs.sum(1).conj().resolve_conj()
