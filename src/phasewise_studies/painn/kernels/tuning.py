"""Launches chosen by timing them on the systems at hand, once, before the first step; `launch_times.py` prints them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from phasewise.kit.tuning import choose_fastest, time_choices
from phasewise_studies.painn.kernels.dense import (
    BACK_LIMITS,
    FORTH_LIMITS,
    LINEAR_LAUNCHES,
    TileLaunch,
    choose_tile,
    fitting_tiles,
    linear,
)
from phasewise_studies.painn.kernels.fused_atoms import Products, Tiles, choose_forms
from phasewise_studies.painn.kernels.fused_messages import FusedMessages, Launches, fitting_launches
from phasewise_studies.painn.kernels.message import RowLaunch
from phasewise_studies.painn.kernels.update import GATE_LAUNCHES, GATE_LIMITS, MIX_LAUNCHES, MIX_LIMITS, gate, mix
from phasewise_studies.painn.kernels.update_adjoint import (
    UNGATE_LAUNCHES,
    UNGATE_LIMITS,
    UNMIX_LAUNCHES,
    UNMIX_LIMITS,
    ungate,
    unmix,
)
from phasewise_studies.painn.layout import Edges, Sizes, Weights

# from how many atoms on the next tile is the default, by kernel; named as in `Tiles`
LIMITS = {
    "forth": FORTH_LIMITS, "back": BACK_LIMITS, "mix": MIX_LIMITS, "gate": GATE_LIMITS, "ungate": UNGATE_LIMITS, "unmix": UNMIX_LIMITS,
}  # fmt: skip


def tune_launches(filters: Tensor, sizes: Sizes, edges: Edges, default: Launches, knots: int = 0) -> Launches:
    """The fastest forward and adjoint launches for these edges; needs a GPU."""
    forward, adjoint = time_messages(filters, sizes, edges, default, knots)
    return Launches(choose_fastest(forward, default.forward), choose_fastest(adjoint, default.adjoint))


def time_messages(
    filters: Tensor, sizes: Sizes, edges: Edges, default: Launches, knots: int = 0
) -> tuple[dict[RowLaunch, float], dict[RowLaunch, float]]:
    """Seconds of the message and of its adjoint along these edges, by launch."""
    atoms, device = edges.row_ptr.shape[0] - 1, edges.r.device
    # values do not matter, shapes do
    q = torch.full((atoms, sizes.features), 0.1, device=device)
    mu = torch.full((atoms, 3, sizes.features), 0.1, device=device)
    x = torch.full((atoms, 3 * sizes.features), 0.1, device=device)
    forward, adjoint = fitting_launches(sizes, device, knots)
    messages = FusedMessages(edges, filters, sizes, default, knots=knots)

    def send(launch: RowLaunch) -> Callable[[], object]:
        return partial(messages.relaunch(replace(default, forward=launch)).send, 1, q, mu, x)

    def pull(launch: RowLaunch) -> Callable[[], object]:
        return partial(messages.relaunch(replace(default, adjoint=launch)).pull, 1, q, mu, mu, x)

    return time_choices({one: send(one) for one in forward}), time_choices({one: pull(one) for one in adjoint})


def tune_tiles(weights: Weights, sizes: Sizes, atoms: int, products: Products) -> Tiles:
    """The fastest tiles of each kernel of atoms, for so many of them; needs a GPU."""
    times = time_tiles(weights, sizes, atoms, products)
    default = weights["embedding"].new_empty(atoms, 0)
    return Tiles(
        **{
            name: choose_fastest(found, choose_tile(tuple(found), LIMITS[name], default))
            for name, found in times.items()
        }
    )


def time_tiles(weights: Weights, sizes: Sizes, atoms: int, products: Products) -> dict[str, dict[TileLaunch, float]]:
    """Seconds of each kernel of atoms, by tile; the kernels are named as in `Tiles`."""
    forth, back, how = choose_forms(products)
    f, device, epsilon = sizes.features, weights["embedding"].device, sizes.epsilon

    def find(name: str, form: str) -> Tensor:
        return weights[f"{name}.{form}"]

    def fill(*shape: int) -> Tensor:
        return torch.full((atoms, *shape), 0.1, device=device)

    q, mu, x, vu, gates = fill(f), fill(3, f), fill(3 * f), fill(3, 2 * f), fill(2 * f)
    dense, wide, mixing = "update.0.1", "update.0.2", "update.0.mix"
    bias, wide_bias = find(dense, "bias"), find(wide, "bias")
    kernels: dict[str, tuple[tuple[TileLaunch, ...], Callable[..., object]]] = {
        "forth": (LINEAR_LAUNCHES, partial(linear, q, find(dense, forth), bias, second=q, silu=True, **how)),
        "back": (LINEAR_LAUNCHES, partial(linear, x, find("message.0.2", back), transpose=True, slope_at=q, **how)),
        "mix": (MIX_LAUNCHES, partial(mix, mu, find(mixing, forth), epsilon, **how)),
        "gate": (GATE_LAUNCHES, partial(gate, q, find(wide, forth), wide_bias, q, mu, vu, q, **how)),
        "ungate": (UNGATE_LAUNCHES, partial(ungate, q, mu, vu, q, q, find(wide, back), **how)),
        "unmix": (UNMIX_LAUNCHES, partial(unmix, q, q, mu, gates, vu, q, find(mixing, back), **how)),
    }
    return {
        # the adjoint of the readout takes the same tiles, and has half of the features
        name: time_choices(
            {
                launch: partial(call, launch=launch)
                for launch in fitting_tiles(launches, f // 2 if name == "back" else f)
            }
        )
        for name, (launches, call) in kernels.items()
    }
