"""A baseline that was timed at smaller shapes: seconds an item, whether that is the same at both, and what follows for the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass

from phasewise.model.linear import is_same_work, more_work
from phasewise.records.analyse import Extrapolation, ScaledTime
from phasewise.records.base import Interval
from phasewise.records.measure import ScalePoint
from phasewise.run import Run
from phasewise.stats import trimmed_mean, yuen_interval
from phasewise.stats.ratio import t_quantile

# per-item times of the two shapes may differ by so much and still be called linear, if it is known as well as this; where the
# work of an item was counted and is the same, times need only agree with that: their interval reaches into the first, and is no
# wider than the last
LINEAR = 0.05
DOUBT, DOUBT_COUNTED = 0.10, 0.25
LEVEL = 0.95
# degrees of freedom of a variance that is known
CERTAIN = 1e6


@dataclass(frozen=True, kw_only=True)
class PerItem:
    """The baseline's seconds an item, from two smaller shapes."""

    log_seconds: float
    standard_error: float
    df: float
    # by how much an item takes longer at the larger shape, and its interval: 0 where the baseline is linear
    departure: float
    bounds: tuple[float, float]
    # by how much an item is more work at the larger shape, by count, and whether that is none; None where nothing was counted
    more_work: float | None = None
    same_work: bool = False

    @property
    def doubt(self) -> float:
        """How far the interval may reach."""
        return DOUBT_COUNTED if self.same_work else DOUBT

    @property
    def is_linear(self) -> bool:
        low, high = self.bounds
        if low < -self.doubt or high > self.doubt:
            return False
        return low <= LINEAR and high >= -LINEAR if self.same_work else abs(self.departure) <= LINEAR

    def describe(self) -> str:
        """What the two shapes differ by."""
        low, high = (100 * bound for bound in self.bounds)
        times = f"the baseline's time per item differs by {100 * self.departure:+.1f} % [{low:+.1f}, {high:+.1f}] between its two shapes"
        if self.more_work is None or self.same_work:
            return times
        return f"{times}, its work by {100 * self.more_work:+.1f} % by count"


def extrapolate(scale: tuple[ScalePoint, ...]) -> PerItem | None:
    """Seconds an item at the larger of two shapes; half of what the two differ by counts as doubt.

    None without two shapes.
    """
    points = _sort_points(scale)
    if len(points) < 2:
        return None
    small, large = points[0], points[-1]
    per_item = trimmed_mean(_log_per_item(large))
    # blocks of one turn saw the same machine
    turns = [after - before for before, after in zip(_log_per_item(small), _log_per_item(large), strict=False)]
    apart = trimmed_mean(turns).estimate
    low, high = yuen_interval(turns, level=LEVEL)
    doubt = (apart / 2.0) ** 2
    if math.isfinite(per_item.variance):
        variance = per_item.variance + doubt
        # Satterthwaite, where the half difference is taken as known: it adds variance and no doubt about the variance
        df = per_item.df * (variance / per_item.variance) ** 2 if per_item.variance > 0.0 else CERTAIN
    else:
        # one sample each: all that tells the noise is how far the two lie apart
        variance, df = doubt, 1.0
    return PerItem(
        log_seconds=per_item.estimate,
        standard_error=math.sqrt(variance),
        df=df,
        departure=math.expm1(apart),
        bounds=(math.expm1(low), math.expm1(high)),
        more_work=more_work(small, large),
        same_work=is_same_work(small, large),
    )


def _sort_points(scale: tuple[ScalePoint, ...]) -> list[ScalePoint]:
    """Those that were timed, the smallest first."""
    return sorted((point for point in scale if point.wall_s), key=lambda point: point.items)


def tell_extrapolation(run: Run, case: str, items: float) -> Extrapolation | None:
    """What the report says of a baseline that was timed at smaller shapes; `items` are those of the whole."""
    measured, per_item = run[run.baseline].measured(case), find_scale(run, run.baseline, case)
    if measured is None or per_item is None:
        return None
    points = tuple(
        ScaledTime(
            shape=point.shape, items=point.items, operators=point.operators, elements=point.elements,
            blocks=len(point.wall_s), per_item_s=_exp_interval(_log_per_item(point)),
        )
        for point in _sort_points(measured.scale)
    )  # fmt: skip
    low, high = per_item.bounds if math.isfinite(per_item.bounds[1]) else (per_item.departure, per_item.departure)
    return Extrapolation(
        points=points,
        departure=Interval(estimate=per_item.departure, low=low, high=high),
        more_work=per_item.more_work,
        same_work=per_item.same_work,
        allowed=LINEAR,
        doubt=per_item.doubt,
        is_linear=per_item.is_linear,
        items=items,
        whole_s=scale_up(per_item, items) if per_item.is_linear else None,
    )


def scale_up(per_item: PerItem, items: float) -> Interval:
    """Seconds of so many items."""
    half = t_quantile(1.0 - LEVEL, per_item.df) * per_item.standard_error
    middle = per_item.log_seconds + math.log(items)
    return Interval(estimate=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half))


def _log_per_item(point: ScalePoint) -> list[float]:
    return [math.log(wall_s / point.items) for wall_s in point.wall_s]


def _exp_interval(logs: list[float]) -> Interval:
    """On the scale of the times; of a single value the estimate alone."""
    estimate = trimmed_mean(logs).estimate
    low, high = yuen_interval(logs, level=LEVEL) if len(logs) > 1 else (estimate, estimate)
    return Interval(estimate=math.exp(estimate), low=math.exp(low), high=math.exp(high))


def find_scale(run: Run, variant: str, case: str) -> PerItem | None:
    """The extrapolated baseline, from its own record or from the variant's."""
    for name in (run.baseline, variant):
        measured = run[name].measured(case)
        if measured is not None and measured.scale and run[name].is_here:
            return extrapolate(measured.scale)
    return None
