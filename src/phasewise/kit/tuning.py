"""Launches chosen by timing them on the GPU at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from phasewise.kit.timing import make_timer

Choice = TypeVar("Choice")
ROUNDS = 20
# a choice must win by this much to replace the default: below it lies the noise of a timer
MARGIN = 0.98


def time_choices(
    calls: Mapping[Choice, Callable[[], object]],
    rounds: int = ROUNDS,
    *,
    summary: Callable[[Sequence[float]], float] = median,
) -> dict[Choice, float]:
    """Seconds of each call on the GPU, by choice; each round times all of them, one after the other.

    `summary` makes one number of the rounds: the median, or `min` where others may be at work on the GPU.
    """
    timers = {choice: make_timer(call) for choice, call in calls.items()}
    times: dict[Choice, list[float]] = {choice: [] for choice in calls}
    for _ in range(rounds):
        for choice, timer in timers.items():
            times[choice].append(timer())
    return {choice: summary(found) for choice, found in times.items()}


def choose_fastest(times: Mapping[Choice, float], default: Choice, margin: float = MARGIN) -> Choice:
    """The choice that takes least, or `default` where none takes less than `margin` of its time."""
    winner = min(times, key=lambda choice: times[choice])
    return winner if times[winner] < margin * times.get(default, float("inf")) else default
