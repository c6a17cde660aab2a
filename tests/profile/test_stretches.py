"""A step drawn out holds the same time as its parts."""

import pytest
from traces import copy, kernel, make_trace, operator, region, sync

from phasewise.profile.stretches import BLUR, KERNELS, draw_out
from phasewise.profile.timeline import choose_frame, frame_steps, summarise
from phasewise.profile.trace import parse_trace

MICRO = 1e-6


def frame(*groups, steps=((0, 100),)):
    return choose_frame(frame_steps(parse_trace(make_trace(*groups, steps=steps))))


def told(stretches):
    return [(one.part, one.kernel, round(one.start_s / MICRO, 3), round(one.seconds / MICRO, 3)) for one in stretches]


def test_each_stretch_has_its_place_in_the_step():
    found = draw_out(
        frame(
            operator("aten::mm", 0, 12), kernel("gemm", 10, 30, launched=5), sync(20, 40),
            operator("aten::add", 55, 62), kernel("add", 60, 70, launched=57), copy("HtoD (Pinned -> Device)", 80, 90, stream=9),
        )
    )  # fmt: skip
    assert told(found) == [
        ("kernels", "gemm", 10, 20), ("kernels", "add", 60, 10), ("copies", "", 80, 10), ("waiting for the device", "", 30, 10),
        ("launch gaps", "", 0, 10), ("launch gaps", "", 55, 5), ("host", "", 40, 15), ("host", "", 70, 10), ("host", "", 90, 10),
    ]  # fmt: skip


def test_stretches_sum_to_the_parts_of_the_step():
    whole = frame(
        region("place", 0, 20), kernel("a", 20, 50, launched=15), kernel("b", 60, 90, launched=55), sync(50, 58)
    )
    parts = summarise(whole)
    by_part = {}
    for one in draw_out(whole):
        by_part[one.part] = by_part.get(one.part, 0.0) + one.seconds
    assert by_part["kernels"] == pytest.approx(parts.kernel_s) and by_part["input"] == pytest.approx(parts.input_s)
    assert sum(by_part.values()) == pytest.approx(parts.wall_s)


def test_only_the_longest_kernels_are_told_apart_and_near_ones_are_drawn_as_one():
    steps = ((0, 4 * BLUR),)
    # kernel k runs for k microseconds; every second gap is shorter than a 400th of the step, 4 microseconds
    groups = [kernel(f"k{length}", 100 * length, 100 * length + length, launched=0) for length in range(1, KERNELS + 3)]
    found = draw_out(frame(*groups, kernel("k9", 912, 921, launched=0), steps=steps))
    names = {one.kernel for one in found if one.kernel}
    assert names == {f"k{length}" for length in range(3, KERNELS + 3)}
    assert [(round(one.start_s / MICRO), round(one.seconds / MICRO)) for one in found if one.kernel == "k9"] == [
        (900, 21)
    ]
    others = [one for one in found if one.part == "kernels" and not one.kernel]
    assert [round(one.seconds / MICRO) for one in others] == [1, 2]


def test_an_empty_step_has_no_stretches():
    assert draw_out(frame(steps=((5, 5),))) == ()
