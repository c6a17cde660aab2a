"""The diagonal by a log-depth scan of 2x2 Moebius matrices in plain PyTorch: about 2 log2(N) passes over memory.

d_i = alpha_i - k_{i-1}/d_{i-1} is the Moebius map of M_i = [[alpha_i, -k_{i-1}], [1, 0]], so d_i is read off the product
M_i ... M_0, of which only the first column matters. Products are rescaled by powers of two, exactly. Any length.
"""

from __future__ import annotations

import torch

from phasewise_studies.bk_core import reference


def diagonal_scan(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex, *, causal: bool = False
) -> torch.Tensor:
    """diag((H - z)^-1), or 1/d_i if `causal`; operands and result as in `reference`."""
    alpha, k = reference.shift_and_couple(a, b, c, z)
    if a.numel() == 0:
        return torch.empty_like(alpha)
    pivots = scan_pivots(alpha, k)
    if causal:
        return 1 / pivots
    return 1 / (pivots + scan_pivots(alpha.flip(1), k.flip(1)).flip(1) - alpha)


def scan_pivots(alpha: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The pivots d_i from inclusive prefix products, by doubling: after j steps each covers 2^j positions."""
    # the product of the positions up to i is [[p00, p01], [p10, p11]]
    p00, p01 = alpha, torch.nn.functional.pad(-k, (1, 0)).to(alpha.dtype)
    p10, p11 = torch.ones_like(alpha), torch.zeros_like(alpha)
    reach = 1
    while reach < alpha.shape[1]:
        new00 = p00[:, reach:] * p00[:, :-reach] + p01[:, reach:] * p10[:, :-reach]
        new01 = p00[:, reach:] * p01[:, :-reach] + p01[:, reach:] * p11[:, :-reach]
        new10 = p10[:, reach:] * p00[:, :-reach] + p11[:, reach:] * p10[:, :-reach]
        new11 = p10[:, reach:] * p01[:, :-reach] + p11[:, reach:] * p11[:, :-reach]
        scale = power_of_two_scale(new00)
        p00 = torch.cat((p00[:, :reach], new00 * scale), dim=1)
        p01 = torch.cat((p01[:, :reach], new01 * scale), dim=1)
        p10 = torch.cat((p10[:, :reach], new10 * scale), dim=1)
        p11 = torch.cat((p11[:, :reach], new11 * scale), dim=1)
        reach *= 2
    return p00 / p10


def power_of_two_scale(values: torch.Tensor) -> torch.Tensor:
    """2^-exponent of the larger part of each complex value: real, exact, and 1 for 0."""
    _, exponent = torch.frexp(torch.maximum(values.real.abs(), values.imag.abs()))
    return torch.ldexp(torch.ones_like(values.real), -exponent)
