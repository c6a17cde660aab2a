"""Launches chosen by timing them on the systems at hand, once, before the first step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, TypeVar

import torch
from torch import Tensor

from phasewise.kit.timing import make_timer
from phasewise.workloads.painn.fused import FusedMessages, Launches, fitting_launches
from phasewise.workloads.painn.fused_atoms import Products, Tiles, name_forms
from phasewise.workloads.painn.layout import Edges, Sizes, Weights
from phasewise.workloads.painn.triton.dense import LINEAR_LAUNCHES, TileLaunch, choose_tile, linear
from phasewise.workloads.painn.triton.update import GATE_LAUNCHES, MIX_LAUNCHES, gate, mix
from phasewise.workloads.painn.triton.update_adjoint import UNGATE_LAUNCHES, UNMIX_LAUNCHES, ungate, unmix

Choice = TypeVar("Choice", Launches, TileLaunch)
# a launch must win by this much to replace the default: below it lies the noise of a timer
MARGIN = 0.98
REPEATS = 10


def tune_launches(filters: Tensor, sizes: Sizes, edges: Edges, default: Launches, knots: int = 0) -> Launches:
    """The fastest forward and adjoint launches for these edges; needs a GPU."""
    atoms, device = edges.row_ptr.shape[0] - 1, edges.r.device
    # values do not matter, shapes do
    q = torch.full((atoms, sizes.features), 0.1, device=device)
    mu = torch.full((atoms, 3, sizes.features), 0.1, device=device)
    x = torch.full((atoms, 3 * sizes.features), 0.1, device=device)
    forward, adjoint = fitting_launches(sizes.features)

    def send(launches: Launches) -> Callable[[], object]:
        messages = FusedMessages(edges, filters, sizes, launches, knots=knots)
        return lambda: messages.send(1, q, mu, x)

    def pull(launches: Launches) -> Callable[[], object]:
        messages = FusedMessages(edges, filters, sizes, launches, knots=knots)
        return lambda: messages.pull(1, q, mu, mu, x)

    best = replace(default, forward=fastest([replace(default, forward=one) for one in forward], default, send).forward)
    return replace(best, adjoint=fastest([replace(best, adjoint=one) for one in adjoint], best, pull).adjoint)


def tune_tiles(weights: Weights, sizes: Sizes, atoms: int, precision: Products) -> Tiles:
    """The fastest tiles of each kernel of atoms, for so many of them; needs a GPU."""
    forth, back = name_forms(precision)
    f, device, epsilon = sizes.features, weights["embedding"].device, sizes.epsilon

    def find(name: str, form: str) -> Tensor:
        return weights[f"{name}.{form}"]

    def fill(*shape: int) -> Tensor:
        return torch.full((atoms, *shape), 0.1, device=device)

    q, mu, x, vu, gates = fill(f), fill(3, f), fill(3 * f), fill(3, 2 * f), fill(2 * f)
    dense, wide, mixing = "update.0.1", "update.0.2", "update.0.mix"
    bias, wide_bias = find(dense, "bias"), find(wide, "bias")
    how: dict[str, Any] = {"precision": precision}
    kernels: dict[str, tuple[tuple[TileLaunch, ...], Callable[..., object]]] = {
        "forth": (LINEAR_LAUNCHES, partial(linear, q, find(dense, forth), bias, second=q, silu=True, **how)),
        "back": (LINEAR_LAUNCHES, partial(linear, x, find("message.0.2", back), transpose=True, slope_at=q, **how)),
        "mix": (MIX_LAUNCHES, partial(mix, mu, find(mixing, forth), epsilon, **how)),
        "gate": (GATE_LAUNCHES, partial(gate, q, find(wide, forth), wide_bias, q, mu, vu, q, **how)),
        "ungate": (UNGATE_LAUNCHES, partial(ungate, q, mu, vu, q, q, find(wide, back), **how)),
        "unmix": (UNMIX_LAUNCHES, partial(unmix, q, q, mu, gates, vu, q, find(mixing, back), **how)),
    }  # fmt: skip
    return Tiles(**{
        name: fastest(list(launches), choose_tile(launches, q), lambda launch, call=call: partial(call, launch=launch))
        for name, (launches, call) in kernels.items()
    })  # fmt: skip


def fastest(choices: list[Choice], default: Choice, make: Callable[[Choice], Callable[[], object]]) -> Choice:
    """The choice with the smallest median time, or the default where none is clearly faster."""
    times = {choice: time_call(make(choice)) for choice in choices}
    winner = min(times, key=lambda choice: times[choice])
    return winner if times[winner] < MARGIN * times.get(default, float("inf")) else default


def time_call(call: Callable[[], object]) -> float:
    """Median seconds of a call on the GPU."""
    time = make_timer(call)
    return median(time() for _ in range(REPEATS))
