"""A trace of five replays of a CUDA graph, recorded with torch 2.11 on compute capability 9.0, read to the end."""

from pathlib import Path

import pytest

from phasewise.profile.counts import count_events, hides_kernels
from phasewise.profile.kernels import tabulate_kernels
from phasewise.profile.opinion import ask_second_opinion
from phasewise.profile.timeline import choose_frame, find_regions, frame_steps, summarise
from phasewise.profile.trace import decode_trace, parse_trace

PARTS = ("kernel_s", "launch_gap_s", "sync_wait_s", "copy_s", "communication_s", "input_s", "host_s")


@pytest.fixture(scope="module")
def recorded():
    plain = decode_trace((Path(__file__).parent / "data" / "graph.pt.trace.json.gz").read_bytes())
    trace = parse_trace(plain)
    return plain, trace, frame_steps(trace)


def test_a_recorded_step_sums_to_its_wall_time(recorded):
    _, _, frames = recorded
    assert len(frames) == 5
    found = summarise(choose_frame(frames))
    assert sum(getattr(found, name) for name in PARTS) == pytest.approx(found.wall_s, rel=1e-12)
    assert found.kernel_s > 0.3e-3 and found.copy_s > 0.3e-3 and found.input_s > 0


def test_kernels_inside_replays_are_seen_and_belong_to_their_step(recorded):
    _, trace, frames = recorded
    assert not hides_kernels(trace, frames)
    products = tabulate_kernels(trace, frames)[1]
    assert (products.calls, products.category, products.tensor_core, products.dtype) == (6, "gemm", False, "float32")
    assert products.grid == (8, 16, 1)
    count = count_events(trace, frames)
    assert (count.launches, count.graph_launches, count.pageable_copies) == (0, 1, 2)
    assert count.copied_bytes == 2 * 1024 * 1024 * 4


def test_without_its_kernels_the_same_trace_is_known_to_hide_them(recorded):
    plain, _, _ = recorded
    bare = parse_trace(
        {**plain, "traceEvents": [event for event in plain["traceEvents"] if event.get("cat") != "kernel"]}
    )
    assert hides_kernels(bare, frame_steps(bare))


def test_placing_is_a_region_with_its_copies(recorded):
    _, trace, frames = recorded
    (place,) = find_regions(trace, frames)
    assert place.name == "place"
    assert place.breakdown.copy_s > 0 and place.breakdown.kernel_s == 0
    assert place.bound == pytest.approx(1 / (1 - place.share))


def test_torch_tb_profiler_agrees_about_its_kernel_time(recorded):
    pytest.importorskip("torch_tb_profiler")
    opinion = ask_second_opinion(*recorded)
    assert opinion.available, opinion.reason
    assert opinion.disagreement < 1e-3
