"""Seconds in words."""

from __future__ import annotations


def format_seconds(seconds: float) -> str:
    """Three digits with a unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
