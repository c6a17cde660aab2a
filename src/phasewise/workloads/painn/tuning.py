"""Launches chosen by timing them on the systems at hand, once, before the first step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median

import torch
from torch import Tensor

from phasewise.kit.timing import make_timer
from phasewise.workloads.painn.fused import FusedMessages, Launches, fitting_launches
from phasewise.workloads.painn.layout import Edges, Sizes

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


def fastest(choices: list[Launches], default: Launches, make: Callable[[Launches], Callable[[], object]]) -> Launches:
    """The choice with the smallest median time, or the default where none is clearly faster."""
    times = {choice: time_call(make(choice)) for choice in choices}
    winner = min(times, key=lambda choice: times[choice])
    return winner if times[winner] < MARGIN * times.get(default, float("inf")) else default


def time_call(call: Callable[[], object]) -> float:
    """Median seconds of a call on the GPU."""
    time = make_timer(call)
    return median(time() for _ in range(REPEATS))
