"""Launches chosen by their times."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phasewise.kit import tuning
from phasewise.kit.tuning import choose_fastest, time_choices


def test_the_fastest_is_taken_where_it_wins_clearly():
    assert choose_fastest({"usual": 1.0, "other": 0.9}, "usual") == "other"


def test_a_win_within_the_noise_of_a_timer_changes_nothing():
    assert choose_fastest({"usual": 1.0, "other": 0.99}, "usual") == "usual"


def test_a_default_that_was_not_timed_loses_to_anything():
    assert choose_fastest({"other": 5.0}, "usual") == "other"


@pytest.mark.parametrize(("options", "seconds"), [({}, 3.0), ({"summary": min}, 1.0)])
def test_what_counts_is_the_median_of_the_rounds_or_what_the_caller_asks_for(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Callable[..., float]], seconds: float
):
    def make_timer(call: Callable[[], object]) -> Callable[[], float]:
        times = iter((9.0, 1.0, 3.0))
        return lambda: next(times)

    monkeypatch.setattr(tuning, "make_timer", make_timer)
    assert time_choices({"usual": int, "other": int}, 3, **options) == {"usual": seconds, "other": seconds}


@pytest.mark.gpu
def test_choices_are_timed_in_turns():
    import torch

    x = {n: torch.rand(n, n, device="cuda") for n in (64, 4096)}
    times = time_choices({n: (lambda a=a: a @ a) for n, a in x.items()}, rounds=5)
    assert 0 < times[64] < times[4096]
