"""Whether an item is as much work at a larger shape as at a smaller one, by count."""

from __future__ import annotations

from phasewise.records.measure import ScalePoint

# an item may be so much more work at the larger shape, as its time may be
SAME = 0.05


def more_work(small: ScalePoint, large: ScalePoint) -> float | None:
    """By how much an item has more operators or elements at the larger shape, whichever differs more; None where nothing was counted."""
    changes = [
        (after / large.items) / (before / small.items) - 1.0
        for before, after in ((small.operators, large.operators), (small.elements, large.elements))
        if before and after
    ]
    return max(changes, key=abs) if changes else None


def is_same(change: float) -> bool:
    """Whether an item that changes by so much still counts as the same work."""
    return abs(change) <= SAME


def is_same_work(small: ScalePoint, large: ScalePoint) -> bool:
    """Whether the work of an item was counted at both shapes, and is the same."""
    change = more_work(small, large)
    return change is not None and is_same(change)
