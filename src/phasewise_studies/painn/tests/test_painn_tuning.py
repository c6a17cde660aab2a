"""Launches chosen by timing: with a stand-in for the timer, since without a GPU every launch is plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

pytest.importorskip("triton", reason="the launches stand beside Triton kernels")

from phasewise_studies.painn.engine import ready_weights
from phasewise_studies.painn.kernels import (
    adjoint,
    adjoint_tiles,
    dense,
    launch_times,
    message,
    message_tiles,
    tuning,
    update,
    update_adjoint,
)
from phasewise_studies.painn.kernels.fused_atoms import Tiles
from phasewise_studies.painn.kernels.fused_messages import Launches, default_launches, fitting_launches
from phasewise_studies.painn.kernels.launches import choose_launch
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.phases import CASES
from phasewise_studies.painn.switches import Switches
from phasewise_studies.painn.tests import painn_kernel_cases as cases
from phasewise_studies.painn.weights import choose_weights

FEATURES, CPU = 64, torch.device("cpu")
KERNELS = {
    name: dense.fitting_tiles(launches, FEATURES // 2 if name == "back" else FEATURES)
    for name, launches in {
        "forth": dense.LINEAR_LAUNCHES,
        "back": dense.LINEAR_LAUNCHES,
        "mix": update.MIX_LAUNCHES,
        "gate": update.GATE_LAUNCHES,
        "ungate": update_adjoint.UNGATE_LAUNCHES,
        "unmix": update_adjoint.UNMIX_LAUNCHES,
    }.items()
}


def stand_in(monkeypatch: pytest.MonkeyPatch, time: Callable[..., float]) -> None:
    """`time(call)` says how long a call takes."""
    monkeypatch.setattr(tuning, "time_choices", lambda calls: {choice: time(call) for choice, call in calls.items()})


def tune(monkeypatch: pytest.MonkeyPatch, time) -> Tiles:
    """Tiles for five atoms, of which `time(call)` says how long they take."""
    stand_in(monkeypatch, time)
    weights, sizes = choose_weights(FEATURES)
    ready = ready_weights(Switches(atoms="triton", precision="tf32x3"), weights, sizes, CPU)
    return tuning.tune_tiles(ready, sizes, 5, "split")


def test_the_fastest_tile_of_each_kernel_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def time(call) -> float:
        # every launch can be called with what it is tuned with
        call()
        name = {dense.linear: "forth"}.get(call.func, call.func.__name__)
        return 1.0 if call.keywords["launch"] == KERNELS[name][2] else 2.0

    assert tune(monkeypatch, time) == Tiles(**{name: launches[2] for name, launches in KERNELS.items()})


def test_a_tile_that_is_hardly_faster_replaces_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tune(monkeypatch, lambda call: 0.99 if call.keywords["launch"].rows > 16 else 1.0)
    assert found == Tiles(**{name: launches[0] for name, launches in KERNELS.items()})


@pytest.mark.parametrize("features", [64, 128, 192, 320])
def test_a_tile_that_is_the_default_divides_every_width_that_the_kernels_take(features: int) -> None:
    tiles = {
        "mix": (update.MIX_LAUNCHES, features), "gate": (update.GATE_LAUNCHES, features),
        "ungate": (update_adjoint.UNGATE_LAUNCHES, features), "unmix": (update_adjoint.UNMIX_LAUNCHES, features),
        # the readout and its adjoint have half of the features
        "forth": (dense.LINEAR_LAUNCHES, features // 2), "back": (dense.LINEAR_LAUNCHES, features // 2),
    }  # fmt: skip
    for name, (launches, inputs) in tiles.items():
        for launch in launches[: len(tuning.LIMITS[name]) + 1]:
            assert inputs % launch.depth == 0 and (name in ("forth", "back") or inputs % launch.columns == 0)
    tiled = (message_tiles.FORWARD_TILE_LIMITS, adjoint_tiles.ADJOINT_TILE_LIMITS)
    for knots, every in ((0, tiled), (512, (message.FORWARD_LIMITS, adjoint.ADJOINT_LIMITS))):
        rows = fitting_launches(Sizes(features=features), CPU, knots)
        for launches, limits in zip(rows, every, strict=True):
            assert len(launches) > len(limits) and all(features % launch.block == 0 for launch in launches)
            assert all(bool(launch.tile) is not bool(knots) for launch in launches)


def test_more_atoms_take_later_launches() -> None:
    some = [
        (message.FORWARD_LAUNCHES, message.FORWARD_LIMITS),
        (adjoint.ADJOINT_LAUNCHES, adjoint.ADJOINT_LIMITS),
        (message_tiles.FORWARD_TILES, message_tiles.FORWARD_TILE_LIMITS),
        (adjoint_tiles.ADJOINT_TILES, adjoint_tiles.ADJOINT_TILE_LIMITS),
        *((KERNELS[name], limits) for name, limits in tuning.LIMITS.items()),
    ]
    for launches, limits in some:
        bounds = [0, *limits]
        assert bounds == sorted(set(bounds)) and len(bounds) <= len(launches)
        for place, least in enumerate(bounds):
            assert choose_launch(launches, limits, least) is launches[place]
            assert least == 0 or choose_launch(launches, limits, least - 1) is launches[place - 1]
    assert list(KERNELS) == list(tuning.LIMITS)


def test_the_fastest_launch_of_each_message_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def time(call) -> float:
        # the third forward, and the second adjoint
        call()
        calls.append(call)
        return 1.0 if len(calls) in (3, len(forward) + 2) else 2.0

    stand_in(monkeypatch, time)
    weights, sizes = choose_weights(FEATURES)
    forward, adjoint = fitting_launches(sizes, CPU)
    atoms = cases.draw_batch([3, 4])
    weights = ready_weights(Switches(), weights, sizes, CPU)
    filters = message.pack_filter(weights["filter.weight"], weights["filter.bias"], sizes.layers)
    found = tuning.tune_launches(filters, sizes, cases.plain_list(atoms, 18), default_launches(7, sizes, CPU))
    assert found == Launches(forward[2], adjoint[1])
    assert len(calls) == len(forward) + len(adjoint)


@pytest.mark.parametrize("case", ["batch-4", "ice-1296"])
def test_every_launch_is_printed_with_its_time(case: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def time(call) -> float:
        call()
        return 2e-6

    stand_in(monkeypatch, time)
    launch_times.print_times(case, CASES[case].tiny, CPU)
    lines = capsys.readouterr().out.splitlines()
    forward, adjoint = fitting_launches(choose_weights(FEATURES)[1], CPU)
    assert len(lines) == len(forward) + len(adjoint) + sum(map(len, KERNELS.values()))
    assert lines[0] == f"{case} message 2.0 us {forward[0]}"


def test_tiles_are_offered_where_their_numbers_stay_in_registers() -> None:
    _, sizes = choose_weights(FEATURES)

    def offered(sizes: Sizes, knots: int = 0) -> list[bool]:
        return [any(launch.tile for launch in launches) for launches in fitting_launches(sizes, CPU, knots)]

    # of this width, those whose warps have 16 features
    assert offered(sizes) == [True, True]
    assert offered(sizes, knots=512) == offered(replace(sizes, radial=22)) == [False, False]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nosuch"], "nosuch was given; choose among aspirin"),
        ([], "none was given"),
        (["aspirin"], "torch finds none here"),
    ],
)
def test_cases_and_gpus_that_are_not_there_are_named(
    given: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as ended:
        launch_times.main(given)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
