from hypothesis import given
from hypothesis import strategies as st
from traces import make_trace, memory, operator

from phasewise.profile.memory import follow_allocator, largest_blocks, read_host_memory, thin
from phasewise.profile.timeline import frame_steps
from phasewise.profile.trace import parse_trace
from phasewise.records.profile import MemoryEvent


@given(st.lists(st.integers(0, 1 << 40), max_size=700))
def test_a_thinned_timeline_keeps_its_peak_and_its_order(sizes):
    points = [MemoryEvent(at_s=float(index), allocated_bytes=size) for index, size in enumerate(sizes)]
    thinned = thin(points)
    assert len(thinned) <= 200
    assert max((p.allocated_bytes for p in thinned), default=0) == max(sizes, default=0)
    assert [p.at_s for p in thinned] == sorted(p.at_s for p in thinned)


def test_the_allocators_history_starts_from_what_was_held():
    events = [
        {"action": "alloc", "size": 100, "time_us": 1_000_000}, {"action": "segment_alloc", "size": 4096, "time_us": 1_000_001},
        {"action": "free_requested", "size": 100, "time_us": 1_000_002}, {"action": "free_completed", "size": 100, "time_us": 1_000_003},
    ]  # fmt: skip
    assert [(p.at_s, p.allocated_bytes) for p in follow_allocator(events, 50)] == [(0, 150), (3e-6, 50)]


def test_large_blocks_say_where_in_python_they_were_asked_for_without_folders():
    frames = [
        {"filename": "/x/torch/nn/linear.py", "line": 1, "name": "forward"},
        {"filename": "/home/me/model.py", "line": 7, "name": "step"},
    ]
    events = [{"action": "alloc", "size": 10, "frames": frames}, {"action": "alloc", "size": 30, "frames": []}]
    segments = [
        {"blocks": [{"state": "active_allocated", "size": 20, "frames": []}, {"state": "inactive", "size": 99}]}
    ]
    assert largest_blocks(events, segments) == (
        ("inside torch", 30),
        ("held before the step", 20),
        ("model.py:7 step", 10),
    )


def test_host_memory_is_that_of_the_step_with_the_operators_that_asked():
    trace = parse_trace(
        make_trace(
            operator("aten::mm", 0, 10),
            memory(5, 64, 64),
            memory(6, 512, 576, device=True),
            memory(20, -64, 0),
            memory(150, 999, 999),
        )
    )
    found = read_host_memory(trace, frame_steps(trace)[0])
    assert (found.peak_bytes, found.allocations_per_step) == (64, 1)
    assert found.largest == (("aten::mm", 64),)
    assert [point.allocated_bytes for point in found.timeline] == [64, 0]
