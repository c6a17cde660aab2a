import pytest
from hypothesis import given
from hypothesis import strategies as st
from traces import copy, graph, kernel, make_trace, operator, region, sync

from phasewise.profile.timeline import choose_frame, find_regions, frame_steps, summarise
from phasewise.profile.trace import parse_trace

PARTS = ("kernel_s", "launch_gap_s", "sync_wait_s", "copy_s", "communication_s", "input_s", "host_s")
MICRO = 1e-6


def breakdown(*groups, steps=((0, 100),)):
    return summarise(choose_frame(frame_steps(parse_trace(make_trace(*groups, steps=steps)))))


def micros(found):
    return {name.removesuffix("_s"): round(getattr(found, name) / MICRO, 6) for name in PARTS if getattr(found, name)}


def test_a_device_busy_all_the_step_leaves_nothing_to_other_parts():
    found = breakdown(kernel("gemm", 0, 100, launched=0), sync(4, 100), operator("aten::mm", 0, 20))
    assert micros(found) == {"kernel": 100}


def test_idle_time_goes_to_whoever_the_host_was_with():
    found = breakdown(
        operator("aten::mm", 0, 12), kernel("gemm", 10, 30, launched=5),
        sync(20, 40),
        operator("aten::add", 55, 62), kernel("add", 60, 70, launched=57),
        operator("aten::arange", 75, 80),
    )  # fmt: skip
    # 0-10 launching, 10-30 kernel, 30-40 waiting for nothing, 40-55 Python, 55-60 launching, 60-70 kernel, rest host
    assert micros(found) == {"kernel": 30, "launch_gap": 15, "sync_wait": 10, "host": 45}


def test_kernels_that_overlap_on_two_streams_count_once():
    found = breakdown(kernel("a", 10, 60, launched=0, stream=7), kernel("b", 40, 90, launched=5, stream=8))
    assert micros(found)["kernel"] == 80


def test_only_exposed_communication_and_exposed_copies_count():
    found = breakdown(
        kernel("gemm", 0, 50, launched=0),
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30, 70, stream=20),
        copy("HtoD (Pinned -> Device)", 60, 80, stream=9),
    )
    assert micros(found) == {"kernel": 50, "communication": 20, "copy": 10, "host": 20}


def test_time_in_the_loader_while_the_device_idles_is_input_even_if_it_waits():
    found = breakdown(region("place", 0, 40), sync(30, 50), kernel("gemm", 50, 100, launched=50))
    assert micros(found) == {"kernel": 50, "input": 40, "sync_wait": 10}


def test_a_step_whose_kernels_outlast_its_annotation_ends_with_its_last_kernel():
    steps = [(0, 20), (20, 40), (40, 60)]
    groups = [kernel("gemm", 10 + 50 * index, 60 + 50 * index, launched=20 * index) for index in range(3)]
    frames = frame_steps(parse_trace(make_trace(*groups, steps=steps)))
    assert [(start // 1000, end // 1000) for start, end in (frame.window for frame in frames)] == [
        (0, 60),
        (60, 110),
        (110, 160),
    ]
    assert micros(summarise(frames[1])) == {"kernel": 50}


def test_idle_time_between_two_annotations_belongs_to_no_step():
    frames = frame_steps(parse_trace(make_trace(kernel("a", 10, 20, launched=0), steps=[(0, 30), (90, 120)])))
    assert [frame.wall // 1000 for frame in frames] == [30, 30]


def test_an_empty_step_is_all_host():
    assert micros(breakdown()) == {"host": 100}


def test_a_trace_without_steps_has_no_frames_and_no_regions():
    trace = parse_trace(make_trace(kernel("a", 0, 10), steps=[]))
    assert frame_steps(trace) == []
    assert find_regions(trace, []) == ()


def test_on_a_cpu_leaf_operators_compute_and_wrappers_and_views_are_the_hosts():
    found = breakdown(
        operator("aten::linear", 0, 40), operator("aten::t", 2, 6), operator("aten::addmm", 8, 38),
        operator("aten::sum", 50, 70), operator("aten::as_strided", 52, 54), operator("aten::fill_", 55, 58),
        operator("aten::copy_", 80, 90),
    )  # fmt: skip
    # sum computes by itself although it calls fill_
    assert micros(found) == {"kernel": 30 + 18, "copy": 10, "host": 42}


def test_the_median_step_is_a_real_one_so_its_parts_sum():
    steps = [(0, 100), (100, 130), (130, 180), (180, 400)]
    found = breakdown(kernel("a", 135, 150, launched=131), steps=steps)
    assert found.wall_s == pytest.approx(50e-6)
    assert sum(getattr(found, name) for name in PARTS) == pytest.approx(found.wall_s, rel=1e-12)


def test_regions_hold_their_kernels_and_their_idle_moments_and_nest():
    trace = parse_trace(
        make_trace(
            region("train", 0, 50), region("forward", 0, 20), region("backward", 20, 50),
            operator("aten::mm", 0, 10), kernel("gemm", 10, 60, launched=5),
            operator("aten::mm", 22, 40), kernel("gemm_backward", 60, 90, launched=25),
        )
    )  # fmt: skip
    found = {item.name: item for item in find_regions(trace, frame_steps(trace))}
    # forward: its kernel 10-60 and 0-10, in which the device idles
    assert found["forward"].seconds == pytest.approx(60e-6)
    assert found["backward"].seconds == pytest.approx(30e-6)
    assert found["train"].share == pytest.approx(0.9)
    assert found["train"].bound == pytest.approx(10)
    assert found["backward"].breakdown.kernel_s == pytest.approx(30e-6)


def test_a_region_that_is_the_whole_step_has_no_bound():
    trace = parse_trace(make_trace(region("all", 0, 100)))
    (found,) = find_regions(trace, frame_steps(trace))
    assert found.share == 1
    assert found.bound is None


def test_a_replay_without_kernels_still_sums_to_the_wall_time():
    found = breakdown(graph(0, 10), sync(10, 90))
    assert micros(found) == {"launch_gap": 10, "sync_wait": 80, "host": 10}


times = st.tuples(st.integers(0, 200), st.integers(0, 60)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(
    st.lists(st.tuples(times, st.sampled_from(["gemm", "ncclKernel_Sum", "add"]), st.integers(7, 9)), max_size=8),
    st.lists(times, max_size=5), st.lists(times, max_size=5), st.lists(times, max_size=3),
    st.lists(st.integers(1, 80), min_size=1, max_size=4),
)  # fmt: skip
def test_parts_always_sum_to_the_wall_time(kernels, syncs, operators, regions, walls):
    ends = [sum(walls[: index + 1]) for index in range(len(walls))]
    steps = [(end - wall, end) for end, wall in zip(ends, walls, strict=True)]
    trace = parse_trace(
        make_trace(
            *(kernel(name, *span, launched=max(span[0] - 5, 0), stream=stream) for span, name, stream in kernels),
            *(sync(*span) for span in syncs), *(operator("aten::add", *span) for span in operators),
            *(region("r", *span) for span in regions), steps=steps,
        )
    )  # fmt: skip
    frames = frame_steps(trace)
    for frame in frames:
        found = summarise(frame)
        values = [getattr(found, name) for name in PARTS]
        assert min(values) >= 0
        assert sum(values) == pytest.approx(found.wall_s, rel=1e-12, abs=1e-18)
    for item in find_regions(trace, frames):
        assert 0 <= item.share <= 1
