import itertools

from hypothesis import given
from hypothesis import strategies as st

from phasewise.profile.intervals import covers, intersect, length, merge, subtract

points = st.integers(0, 60)
intervals = st.lists(st.tuples(points, points).map(lambda pair: (min(pair), max(pair))), max_size=12)


def covered(parts):
    return {moment for start, end in parts for moment in range(start, end)}


@given(intervals)
def test_merging_keeps_what_is_covered_in_sorted_intervals_that_do_not_touch(parts):
    merged = merge(parts)
    assert covered(merged) == covered(parts)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(merged))
    assert length(merged) == len(covered(parts))


@given(intervals, intervals)
def test_intersection_and_difference_are_those_of_sets(left, right):
    left, right = merge(left), merge(right)
    assert covered(intersect(left, right)) == covered(left) & covered(right)
    assert covered(subtract(left, right)) == covered(left) - covered(right)
    assert length(intersect(left, right)) + length(subtract(left, right)) == length(left)


def test_nothing_is_left_of_an_interval_that_is_covered_whole():
    assert subtract([(0, 10)], [(0, 4), (4, 12)]) == []
    assert intersect([(0, 10)], []) == []


@given(intervals)
def test_a_moment_is_covered_where_an_interval_holds_it(parts):
    merged = merge(parts)
    assert {moment for moment in range(-1, 62) if covers(merged, moment)} == covered(parts)
