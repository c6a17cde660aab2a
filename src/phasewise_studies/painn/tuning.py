"""Launches chosen by timing them on the systems at hand, once, before the first step.

python -m phasewise_studies.painn.tuning batch-1024 box-10k        # prints them all, on the GPU that is here
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TypeVar

import torch
from torch import Tensor

from phasewise import Shape
from phasewise.kit.timing import make_timer
from phasewise.records.errors import UserError, report_errors
from phasewise_studies.painn import neighbours
from phasewise_studies.painn.data import as_atoms, make_batch
from phasewise_studies.painn.fused import FusedMessages, Launches, default_launches, fitting_launches
from phasewise_studies.painn.fused_atoms import Products, Tiles, choose_forms
from phasewise_studies.painn.layout import Edges, Sizes, Weights
from phasewise_studies.painn.phases import CASES, EVERYTHING, Switches
from phasewise_studies.painn.triton.dense import (
    BACK_LIMITS,
    FORTH_LIMITS,
    LINEAR_LAUNCHES,
    TileLaunch,
    choose_tile,
    fitting_tiles,
    linear,
)
from phasewise_studies.painn.triton.message import RowLaunch, pack_filter
from phasewise_studies.painn.triton.update import GATE_LAUNCHES, GATE_LIMITS, MIX_LAUNCHES, MIX_LIMITS, gate, mix
from phasewise_studies.painn.triton.update_adjoint import (
    UNGATE_LAUNCHES,
    UNGATE_LIMITS,
    UNMIX_LAUNCHES,
    UNMIX_LIMITS,
    ungate,
    unmix,
)
from phasewise_studies.painn.weights import choose_weights

Choice = TypeVar("Choice", RowLaunch, TileLaunch)
# a launch must win by this much to replace the default: below it lies the noise of a timer
MARGIN = 0.98
REPEATS = 10
# from how many atoms on the next tile is the default, by kernel; named as in `Tiles`
LIMITS = {
    "forth": FORTH_LIMITS, "back": BACK_LIMITS, "mix": MIX_LIMITS, "gate": GATE_LIMITS, "ungate": UNGATE_LIMITS, "unmix": UNMIX_LIMITS,
}  # fmt: skip


def tune_launches(filters: Tensor, sizes: Sizes, edges: Edges, default: Launches, knots: int = 0) -> Launches:
    """The fastest forward and adjoint launches for these edges; needs a GPU."""
    forward, adjoint = time_messages(filters, sizes, edges, default, knots)
    return Launches(fastest(forward, default.forward), fastest(adjoint, default.adjoint))


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

    def send(launch: RowLaunch) -> Callable[[], object]:
        messages = FusedMessages(edges, filters, sizes, replace(default, forward=launch), knots=knots)
        return lambda: messages.send(1, q, mu, x)

    def pull(launch: RowLaunch) -> Callable[[], object]:
        messages = FusedMessages(edges, filters, sizes, replace(default, adjoint=launch), knots=knots)
        return lambda: messages.pull(1, q, mu, mu, x)

    return {one: time_call(send(one)) for one in forward}, {one: time_call(pull(one)) for one in adjoint}


def tune_tiles(weights: Weights, sizes: Sizes, atoms: int, products: Products) -> Tiles:
    """The fastest tiles of each kernel of atoms, for so many of them; needs a GPU."""
    times = time_tiles(weights, sizes, atoms, products)
    default = weights["embedding"].new_empty(atoms, 0)
    return Tiles(
        **{name: fastest(found, choose_tile(tuple(found), LIMITS[name], default)) for name, found in times.items()}
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
        name: {
            launch: time_call(partial(call, launch=launch))
            for launch in fitting_tiles(launches, f // 2 if name == "back" else f)
        }
        for name, (launches, call) in kernels.items()
    }


def fastest(times: Mapping[Choice, float], default: Choice) -> Choice:
    """The choice that takes least, or the default where none is clearly faster."""
    winner = min(times, key=lambda choice: times[choice])
    return winner if times[winner] < MARGIN * times.get(default, float("inf")) else default


def time_call(call: Callable[[], object]) -> float:
    """Median seconds of a call on the GPU."""
    time = make_timer(call)
    return median(time() for _ in range(REPEATS))


def print_times(case: str, shape: Shape, device: torch.device) -> None:
    """Microseconds of every launch for systems of this shape, the fastest of each kernel first."""
    # the engine itself asks this module
    from phasewise_studies.painn import engine, program

    switches = Switches(**EVERYTHING)
    weights, sizes = choose_weights(shape.features)
    atoms = as_atoms(program.to_device(make_batch(shape, 0), device))
    ready = engine.ready_weights(switches, weights, sizes, device)
    find, _ = engine.choose_finder(switches, atoms, neighbours.plan_list(atoms, sizes.cutoff))
    count, filters = len(atoms.numbers), pack_filter(ready["filter.weight"], ready["filter.bias"], sizes.layers)
    forward, adjoint = time_messages(filters, sizes, find(atoms), default_launches(count, sizes, device))
    tiles = time_tiles(ready, sizes, count, engine.choose_products(switches))
    for name, times in {"message": forward, "adjoint": adjoint, **tiles}.items():
        for launch, seconds in sorted(times.items(), key=lambda entry: entry[1]):
            print(f"{case} {name} {seconds * 1e6:.1f} us {launch}", flush=True)


@report_errors
def main(cases: Sequence[str]) -> None:
    """Print the times of the named cases."""
    unknown = [case for case in cases if case not in CASES]
    if unknown or not cases:
        raise UserError(f"case: {unknown[0] if unknown else 'none'} was given; choose among {', '.join(CASES)}")
    if not torch.cuda.is_available():
        raise UserError(
            "tuning times kernels of an NVIDIA GPU, and torch finds none here; run it on a machine that has one"
        )
    for case in cases:
        print_times(case, CASES[case].full, torch.device("cuda"))


if __name__ == "__main__":
    main(sys.argv[1:])
