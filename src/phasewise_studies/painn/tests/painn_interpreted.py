"""What is promised of the cases that a process where Triton interprets measures."""

from __future__ import annotations

from phasewise_studies.testing import Found

# relative to the largest value; sums of some tens of float32 products
TOLERANCE = 2e-6


def find_wrong(found: Found, tolerance: float = TOLERANCE) -> Found:
    """What is not promised, and errors that are not those of float32."""
    return {
        key: value for key, value in found.items() if (not value if isinstance(value, bool) else not value < tolerance)
    }
