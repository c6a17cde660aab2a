"""The diagonal by accelerated-scan, whose Triton kernels solve x_t = f_t x_{t-1} + i_t in complex numbers, one pass over memory each.

The pivots' recursion d_i = alpha_i - k_i/d_{i-1} is no such recurrence, but Newton's iteration for all of them at once is:
    d_i <- alpha_i - k_i/c - (d/dc)(k_i/c) (d_{i-1} - c) = (alpha_i - 2 k_i r) + k_i r^2 d_{i-1},  r = 1/c,  c the last d_{i-1}
(Lim et al., arXiv 2309.12252). A step of Newton doubles the digits; the first guess is what a few steps of the recursion itself
make of alpha, since it forgets where it began. Both directions go through one scan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.bk_core.problem import Z

# for a shift of i and the study's operands; these and two of Newton's leave float32's rounding, a third is for rows yet unseen
FORGETTING, NEWTON = 4, 3

# forget, inputs (batch, channels, length), complex and contiguous -> states
Scan = Callable[[Tensor, Tensor], Tensor]


def accelerated_scan(inputs: Mapping[str, Tensor], case: str, shape: Shape, device: torch.device) -> Program:
    """The diagonal by three scans of accelerated-scan's complex kernel, what is between them under torch.compile."""
    from accelerated_scan.complex import scan

    diagonal = make_diagonal(scan, torch.compile(dynamic=False) if device.type == "cuda" else lambda part: part)
    return Program(
        step=lambda placed: diagonal(placed["a"], placed["b"], placed["c"], Z.real, Z.imag),
        outputs=lambda raw: {"diagonal": torch.view_as_complex(raw)},
    )


def make_diagonal(scan: Scan, compile_part: Callable[[Callable[..., Any]], Any]) -> Callable[..., Tensor]:
    """(a, b, c, E, eta) -> the diagonal as pairs (batch, length, 2); real and imaginary parts are apart outside the scans."""
    begin, go_on, end = (compile_part(part) for part in (_begin, _go_on, _end))

    def diagonal(a: Tensor, b: Tensor, c: Tensor, energy: float, eta: float) -> Any:
        x, k, terms = begin(a, b, c, energy, eta)
        for index in range(NEWTON):
            forget, given = (torch.view_as_complex(part) for part in terms)
            pivots = torch.view_as_real(scan(forget, given))
            if index + 1 < NEWTON:
                terms = go_on(pivots, x, k, eta)
        return end(pivots, x, eta)

    return diagonal


def _begin(a: Tensor, b: Tensor, c: Tensor, energy: float, eta: float) -> tuple[Tensor, Tensor, Tensor]:
    """a - E (batch, 2, length) from the left, and from the right with all reversed; the coupling to the position before, which
    a batch may share; terms of the first of Newton's steps.
    """
    x, k = a - energy, torch.atleast_2d(b * c)
    x, k = torch.stack((x, x.flip(1)), dim=1), torch.stack((k, k.flip(1)), dim=1)
    k = torch.nn.functional.pad(k, (1, 0))
    re, im = x, torch.full_like(x, -eta)
    for _ in range(FORGETTING):
        r_re, r_im = _invert_before(re, im)
        re, im = x - k * r_re, -eta - k * r_im
    return x, k, _linearise(re, im, x, k, eta)


def _go_on(pivots: Tensor, x: Tensor, k: Tensor, eta: float) -> Tensor:
    return _linearise(pivots[..., 0], pivots[..., 1], x, k, eta)


def _end(pivots: Tensor, x: Tensor, eta: float) -> Tensor:
    """1/(d + e - alpha) from the pivots of both directions."""
    found = pivots[:, 0] + pivots[:, 1].flip(1)
    re, im = found[..., 0] - x[:, 0], found[..., 1] + eta
    size = re * re + im * im
    return torch.stack((re / size, -im / size), dim=-1)


def _linearise(re: Tensor, im: Tensor, x: Tensor, k: Tensor, eta: float) -> Tensor:
    """Forget and inputs of Newton's step from the pivots re + i im, as pairs: (2, batch, 2, length, 2)."""
    r_re, r_im = _invert_before(re, im)
    forget = torch.stack((k * (r_re * r_re - r_im * r_im), 2 * k * r_re * r_im), dim=-1)
    return torch.stack((forget, torch.stack((x - 2 * k * r_re, -eta - 2 * k * r_im), dim=-1)))


def _invert_before(re: Tensor, im: Tensor) -> tuple[Tensor, Tensor]:
    """1 over the value one position before; 1 at the first, whose coupling is 0."""
    re, im = (torch.nn.functional.pad(part[..., :-1], (1, 0), value=at) for part, at in ((re, 1.0), (im, 0.0)))
    size = re * re + im * im
    return re / size, -im / size
