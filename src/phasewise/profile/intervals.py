"""Arithmetic on sorted lists of disjoint half-open intervals of integer nanoseconds; exact, so that parts sum to the whole."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
Intervals = list[Interval]


def merge(intervals: Iterable[Interval]) -> Intervals:
    """The union as sorted, disjoint, non-touching intervals; empty ones disappear."""
    merged: Intervals = []
    for start, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(intervals: Sequence[Interval]) -> int:
    """Total length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def covers(intervals: Sequence[Interval], moment: int) -> bool:
    """Whether one of them, merged, holds the moment."""
    place = bisect_right(intervals, moment, key=lambda interval: interval[0])
    return place > 0 and moment < intervals[place - 1][1]


def intersect(left: Sequence[Interval], right: Sequence[Interval]) -> Intervals:
    """What both cover; both merged."""
    common: Intervals = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if end > start:
            common.append((start, end))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return common


def subtract(left: Sequence[Interval], right: Sequence[Interval]) -> Intervals:
    """What `left` covers and `right` does not; both merged."""
    rest: Intervals = []
    j = 0
    for start, end in left:
        while j < len(right) and right[j][1] <= start:
            j += 1
        k = j
        while k < len(right) and right[k][0] < end:
            if right[k][0] > start:
                rest.append((start, right[k][0]))
            start = max(start, right[k][1])
            k += 1
        if end > start:
            rest.append((start, end))
    return rest
