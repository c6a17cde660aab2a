"""All of it on a GPU: one call of `pytest -m gpu src/phasewise_studies/lior/tests` says whether everything is right."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch

from phasewise import Shape
from phasewise.tensors import all_same_bits
from phasewise_studies.lior import peers, program
from phasewise_studies.lior.switches import CAPTURED, Switches
from phasewise_studies.lior.tests.lior_runs import (
    EXACT,
    FUSED,
    HALF,
    HALF_ERROR,
    VARIANTS,
    build,
    make_shape,
    make_switches,
    run_reference,
    run_windows,
    worst_error,
)

pytestmark = pytest.mark.gpu
# the sizes of the targets, with few steps, so that the reference takes a second
WIDE = {"batch": 32, "steps": 4, "bank": 2048, "state": 512, "grid": 28, "inner": 16, "filled": 2040}
GRAPHS = {name: settings for name, settings in FUSED.items() if "fused" in name}


@pytest.fixture(scope="module")
def references() -> dict[tuple[bool, bool], dict[str, torch.Tensor]]:
    """Two windows of the reference, by mode and by whether the shape is wide."""
    return {
        (feedback, wide): run_reference(shape_of(feedback, wide))
        for feedback in (True, False)
        for wide in (True, False)
    }


def shape_of(feedback: bool, wide: bool) -> Shape:
    return make_shape(feedback=feedback, **(WIDE if wide else {}))


@pytest.mark.parametrize(
    ("name", "feedback", "wide"),
    [
        *((name, True, False) for name in VARIANTS),
        *((name, feedback, wide) for name in FUSED for feedback in (True, False) for wide in (True, False)),
        *((name, True, True) for name in HALF),
    ],
)
def test_every_setting_agrees_with_the_reference(references, name: str, feedback: bool, wide: bool) -> None:
    shape = shape_of(feedback, wide)
    made = build(make_switches((VARIANTS | FUSED | HALF)[name], feedback=feedback), shape, "cuda")
    assert not made.fallbacks
    assert worst_error(run_windows(made, shape), references[feedback, wide]) < HALF_ERROR.get(name, 5 * EXACT)


@pytest.mark.parametrize("feedback", [True, False], ids=["feedback", "open"])
@pytest.mark.parametrize("name", [*GRAPHS, "triton-bounded", "product"])
def test_a_replay_gives_the_bits_of_launched_kernels_and_keeps_up_with_fresh_batches(name: str, feedback: bool) -> None:
    shape = shape_of(feedback, True)
    switches = make_switches((VARIANTS | FUSED)[name], feedback=feedback)
    launched = build(replace(switches, **{**CAPTURED, "graph": False}), shape, "cuda")
    replayed = build(replace(switches, **CAPTURED), shape, "cuda")
    assert not replayed.fallbacks
    assert all_same_bits(run_windows(launched, shape, 3), run_windows(replayed, shape, 3))


@pytest.mark.parametrize("more", [{"overlap": True}, {"compiled_ends": True}, {"overlap": True, "compiled_ends": True}])
def test_overlapped_launches_and_compiled_ends_agree_with_the_reference_and_repeat_their_bits(references, more) -> None:
    if "overlap" in more and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("programmatic launches need compute capability 9.0; run on an H100 or newer")
    shape = shape_of(True, True)
    switches = replace(make_switches(FUSED["fused-split"], feedback=True), graph=True, **more)
    first, again = (run_windows(build(switches, shape, "cuda"), shape) for _ in range(2))
    assert worst_error(first, references[True, True]) < 5 * EXACT
    assert all_same_bits(first, again)


@pytest.mark.parametrize("wide", [False, True], ids=["odd", "wide"])
def test_the_persistent_kernel_meets_and_agrees_with_the_reference(references, wide: bool) -> None:
    shape = shape_of(True, wide)
    switches = Switches(**{**CAPTURED, "engine": "persistent", "mix": "split", "graph": wide})
    found = run_windows(build(switches, shape, "cuda"), shape)
    assert int(found.pop("barrier_gave_up")) == 0
    assert worst_error(found, references[True, wide]) < 5 * EXACT


def test_symmetric_nudging_agrees_with_the_reference() -> None:
    shape = make_shape(feedback=True, symmetric=True)
    made = build(make_switches(FUSED["fused-split"], feedback=True), shape, "cuda")
    assert worst_error(run_windows(made, shape), run_reference(shape)) < EXACT


def test_a_thousand_captured_windows_stay_finite_and_in_place() -> None:
    # what other tests dropped in cycles must not be freed while this one counts
    gc.collect()
    shape = shape_of(True, True)
    made = build(replace(make_switches(FUSED["fused-split"], feedback=True), graph=True), shape, "cuda")
    placed = [made.place(program.make_inputs("any", shape, seed)) for seed in range(4)]
    for window in range(1000):
        raw = made.step(placed[window % 4])
        if window == 9:
            before = torch.cuda.memory_allocated()
    assert torch.cuda.memory_allocated() == before
    assert all(bool(torch.isfinite(tensor).all()) for tensor in (*made.outputs(raw).values(), *made.state().values()))


@pytest.mark.parametrize(
    ("name", "feedback"),
    [("plain_cuda_graph", True), ("torch_compile_reduce_overhead", True), ("sdpa", False), ("flex_attention", False)],
)
def test_a_peer_agrees_with_the_reference(references, name: str, feedback: bool) -> None:
    shape = shape_of(feedback, True)
    inputs = program.make_inputs("any", shape, 0)
    made = getattr(peers, name)(inputs, "any", shape, torch.device("cuda"))
    assert not made.fallbacks
    assert worst_error(run_windows(made, shape), references[feedback, True]) < 5 * EXACT
