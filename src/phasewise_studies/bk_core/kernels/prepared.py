"""Launches that are found once, for operands that lie in memory as the first ones did: a third of the host time.

Through Triton's launcher and `kernels.diagonal` a call takes 57 us beside an H200, longer than the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from phasewise.kit.kernels import describe_layout
from phasewise_studies.bk_core import reference
from phasewise_studies.bk_core.kernels import dispatch
from phasewise_studies.bk_core.kernels.launch import Launch


def prepare_diagonal(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex,
    *,
    causal: bool = False,
    launch: Launch | None = None,
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """`kernels.diagonal` for operands that lie in memory as these do; others take the usual way."""

    def answer(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        # a launch belongs to one shape
        return dispatch.diagonal(a, b, c, z, causal=causal, launch=launch if a.shape == shape else None)

    shape = a.shape
    if a.numel() == 0 or not dispatch.has_kernel(a.device, a.dtype):
        return answer
    reference.check_operands(a, b, c, z)
    layout = describe_layout((a, b, c))
    out = torch.empty(shape, dtype=torch.complex64, device=a.device)
    again, size = dispatch.launch_diagonal_and_keep(out, a, b, c, z, causal, launch)

    def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        if describe_layout((a, b, c)) != layout:
            return answer(a, b, c)
        out = torch.empty(shape, dtype=torch.complex64, device=a.device)
        again(torch.view_as_real(out), torch.empty(size, dtype=torch.float32, device=a.device), a, b, c, a)
        return out

    return run


def prepare_gradient(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    z: complex,
    pairs: torch.Tensor,
    *,
    causal: bool = False,
    couplings: bool = True,
    launch: Launch | None = None,
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """dL/da, with `couplings` also dL/db and dL/dc, of operands and `pairs` = dL/d(Re G, Im G) (batch, length, 2) that lie as these do.

    Others take the usual way, and so do couplings that all rows share: their gradients are sums.
    """

    def answer(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, pairs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        upstream = torch.view_as_complex(pairs.contiguous())
        own = launch if a.shape == shape else None
        found = dispatch.gradient(a, b, c, z, upstream, causal=causal, couplings=couplings, shift=False, launch=own)
        return tuple(part for part in found if part is not None)

    shape = a.shape
    shared = dispatch.is_shared(b, c)
    if a.numel() == 0 or not dispatch.has_kernel(a.device, a.dtype) or (couplings and shared):
        return answer
    reference.check_operands(a, b, c, z)
    cut = dispatch.choose_gradient_launch(a, z) if launch is None else launch
    layout = describe_layout((a, b, c, pairs))

    def make_outputs(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return dispatch.make_gradients(a, b, c, cut, couplings=couplings, shift=False)

    again = dispatch.launch_gradient_and_keep(make_outputs(a, b, c), pairs, a, b, c, z, causal, couplings, False, cut)

    def run(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, pairs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if describe_layout((a, b, c, pairs)) != layout:
            return answer(a, b, c, pairs)
        outputs = make_outputs(a, b, c)
        again(*outputs, pairs, a, b, c, a)
        by_a, by_b, by_c, *_ = outputs
        return (by_a, by_b[:, :-1], by_c[:, :-1]) if couplings else (by_a,)

    return run
