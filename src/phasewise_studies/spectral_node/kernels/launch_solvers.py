"""Launches of the kernels of boundary-value problems, or the plain functions where there is no kernel.

Whoever solves many batches makes `Constants` once: tables and the folded flow in the layout that the kernels read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from phasewise.kit.kernels import has_kernel, is_interpreted
from phasewise.records.errors import UserError
from phasewise_studies.spectral_node.closed_form import Tables, couple_closed, look_up, solve_closed
from phasewise_studies.spectral_node.flow import HIDDEN, Flow, rate
from phasewise_studies.spectral_node.shooting import integrate_coupled, integrate_geodesic, shoot

# log2(e)
LOG2_E = 1.4426950408889634
# columns of a row that fit with 16 kB of shared memory; the kernels need one to spare
MOST_COLUMNS = 2047


@dataclass(frozen=True)
class Launch:
    """Transitions a program, and its warps."""

    block: int
    warps: int


# four transitions a thread hide the latency of the row's reads; the flow's weights leave room for one
SHOOT, COUPLE, CLOSED = Launch(512, 4), Launch(128, 4), Launch(128, 4)


class Constants(NamedTuple):
    """Everything that does not change from batch to batch, in float32 on the device."""

    # (W, N)
    gamma: Tensor
    tables: Tables
    flow: Flow
    # the flow with tanh turned into 1/(1 + 2^z)
    scaled: Flow


def scale_flow(flow: Flow) -> Flow:
    """The same flow for the kernels: out . tanh(z) + shift = sum_i out'_i/(1 + 2^(z'_i)) + shift'.

    tanh z = 1 - 2/(1 + e^2z), so z' = 2 log2(e) z, out' = -2 out, shift' = shift + sum out.
    """
    bias, by_c, by_v, by_a = (part * (2 * LOG2_E) for part in flow[:4])
    return Flow(*(part.contiguous() for part in (bias, by_c, by_v, by_a, -2 * flow.out, flow.shift + flow.out.sum())))


def _has_row_kernel(constants: Constants, device: torch.device) -> bool:
    """Whether kernels answer: there is one, and a row of the tables fits into its shared memory."""
    return has_kernel(device, constants.gamma.dtype) and constants.gamma.shape[1] <= MOST_COLUMNS


def _row(columns: int) -> int:
    """The power of two above `columns`."""
    return 1 << columns.bit_length()


def _grid(pairs: int, wavelengths: int, launch: Launch) -> tuple[int, int]:
    import triton

    return triton.cdiv(pairs, launch.block), wavelengths


def solve(
    constants: Constants, start: Tensor, stop: Tensor, *, steps: int, newton: int, launch: Launch = SHOOT
) -> tuple[Tensor, Tensor]:
    """v0 and c(1) as (W, P) by shooting; start and stop (P,)."""
    columns, wavelengths = constants.gamma.shape[1], constants.gamma.shape[0]
    if not _has_row_kernel(constants, start.device):
        begin, goal = _spread(start, wavelengths), _spread(stop, wavelengths)
        gamma = partial(look_up, constants.gamma)
        v0, end = shoot(lambda c, v: integrate_geodesic(gamma, c, v, steps), begin, goal, newton=newton, slope="exact")
        return v0.T, end.T
    from phasewise_studies.spectral_node.kernels.shooting import shoot_forward_kernel

    v0, end = torch.empty((2, wavelengths, len(start)), dtype=torch.float32, device=start.device).unbind(0)
    shoot_forward_kernel[_grid(len(start), wavelengths, launch)](
        v0, end, start, stop, constants.gamma, len(start), columns, STEPS=steps, NEWTON=newton, ROW=_row(columns),
        BLOCK=launch.block, PTX=not is_interpreted(), num_warps=launch.warps,
    )  # fmt: skip
    return v0, end


def couple(
    constants: Constants, start: Tensor, stop: Tensor, a: Tensor, *, steps: int, newton: int, launch: Launch = COUPLE
) -> tuple[Tensor, Tensor]:
    """v0 and A(1) as (W, P) by shooting and one coupled pass; a (W, P).

    Raises:
        UserError: `steps` is odd, and the pass takes two of them at once.
    """
    if steps % 2:
        raise UserError(f"spectral_node: steps={steps} is odd; the coupled pass takes two at once, give an even number")
    columns, wavelengths = constants.gamma.shape[1], constants.gamma.shape[0]
    if not _has_row_kernel(constants, start.device):
        v0, _ = solve(constants, start, stop, steps=steps, newton=newton)
        gamma, flow = partial(look_up, constants.gamma), partial(rate, constants.flow)
        _, _, end = integrate_coupled(gamma, flow, _spread(start, wavelengths), v0.T, a.T, steps)
        return v0, end.T
    from phasewise_studies.spectral_node.kernels.shooting import couple_forward_kernel

    v0, end = torch.empty((2, wavelengths, len(start)), dtype=torch.float32, device=start.device).unbind(0)
    couple_forward_kernel[_grid(len(start), wavelengths, launch)](
        v0, end, start, stop, a, constants.gamma, *constants.scaled, len(start), columns, STEPS=steps, NEWTON=newton,
        HIDDEN=HIDDEN, ROW=_row(columns), BLOCK=launch.block, PTX=not is_interpreted(), num_warps=launch.warps,
    )  # fmt: skip
    return v0, end


def closed_solve(constants: Constants, start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """v0 and c(1) as (W, P) by arc length."""
    columns, wavelengths = constants.gamma.shape[1], constants.gamma.shape[0]
    if not _has_row_kernel(constants, start.device):
        v0, end = solve_closed(constants.tables, _spread(start, wavelengths), _spread(stop, wavelengths))
        return v0.T, end.T
    from phasewise_studies.spectral_node.kernels.closed_form import closed_solve_kernel

    v0, end = torch.empty((2, wavelengths, len(start)), dtype=torch.float32, device=start.device).unbind(0)
    launch = Launch(256, 4)
    closed_solve_kernel[_grid(len(start), wavelengths, launch)](
        v0, end, start, stop, *constants.tables, len(start), columns, BLOCK=launch.block, num_warps=launch.warps
    )
    return v0, end


def closed_couple(
    constants: Constants, start: Tensor, stop: Tensor, a: Tensor, *, steps: int, launch: Launch = CLOSED
) -> tuple[Tensor, Tensor]:
    """v0 and A(1) as (W, P) by arc length and `steps` RK4 steps over concentration; a (W, P)."""
    columns, wavelengths = constants.gamma.shape[1], constants.gamma.shape[0]
    if not _has_row_kernel(constants, start.device):
        begin, goal = _spread(start, wavelengths), _spread(stop, wavelengths)
        v0, end = couple_closed(constants.tables, constants.flow, begin, goal, a.T, steps)
        return v0.T, end.T
    from phasewise_studies.spectral_node.kernels.closed_form import closed_couple_kernel

    v0, end = torch.empty((2, wavelengths, len(start)), dtype=torch.float32, device=start.device).unbind(0)
    closed_couple_kernel[_grid(len(start), wavelengths, launch)](
        v0, end, start, stop, a, constants.tables.speed, constants.tables.arc, *constants.scaled, len(start), columns,
        STEPS=steps, HIDDEN=HIDDEN, ROW=_row(columns), BLOCK=launch.block, PTX=not is_interpreted(),
        num_warps=launch.warps,
    )  # fmt: skip
    return v0, end


def _spread(levels: Tensor, wavelengths: int) -> Tensor:
    """(P,) -> (P, W), a view."""
    return levels[:, None].expand(-1, wavelengths)
