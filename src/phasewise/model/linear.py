"""Whether an item is as much work at a larger shape as at a smaller one, by count."""

from __future__ import annotations

from phasewise.records.measure import ScalePoint

# what a step does once, however many items it has, may be this much of an item
SAME = 0.01


def more_work(small: ScalePoint, large: ScalePoint) -> float | None:
    """By how much an item has more operators or elements at the larger shape, whichever differs more; None where nothing was counted."""
    changes = [
        (after / large.items) / (before / small.items) - 1.0
        for before, after in ((small.operators, large.operators), (small.elements, large.elements))
        if before and after
    ]
    return max(changes, key=abs) if changes else None


def is_same_work(small: ScalePoint, large: ScalePoint) -> bool:
    """Whether the work of an item was counted at both shapes, and is the same."""
    change = more_work(small, large)
    return change is not None and abs(change) <= SAME
