"""A baseline that is too slow for the shape of its case: what it takes at those that it can run, and nothing beyond."""

from __future__ import annotations

import math

from phasewise.analyse.compare import to_interval
from phasewise.model.ratios import paired_log_ratios
from phasewise.model.refusals import find_refusal
from phasewise.records.analyse import SmallerShape
from phasewise.records.base import Interval
from phasewise.records.measure import CaseMeasurement, ScalePoint
from phasewise.run import Run
from phasewise.stats import estimate_ratio, trimmed_mean, yuen_interval


def tell_smaller(run: Run, case: str) -> tuple[SmallerShape, ...]:
    """The baseline at each shape where it was timed, the smallest first; nothing where it was timed at the case's own."""
    measured = run[run.baseline].measured(case)
    points = measured.scale if measured is not None else ()
    beside = {repr(sorted(one.shape.items())): one.measured for one in run.smaller(case)}
    return tuple(
        SmallerShape(
            shape=point.shape, items=point.items, operators=point.operators, elements=point.elements,
            blocks=len(point.wall_s), step_s=_time_step(point),
            speedup=_compare(beside.get(repr(sorted(point.shape.items())))),
        )
        for point in sorted((point for point in points if point.wall_s), key=lambda point: point.items)
    )  # fmt: skip


def _compare(measured: CaseMeasurement | None) -> Interval | None:
    """The end of the stack over the baseline; None where nothing in these rounds may be told."""
    if measured is None or find_refusal(measured) is not None:
        return None
    sets = paired_log_ratios(measured, "baseline", "variant")
    return to_interval(estimate_ratio(sets)) if sets else None


def runs_smaller_only(run: Run, case: str) -> bool:
    """Whether the baseline is not run at the shape of this case."""
    planned, measured = run[run.baseline].planned(case), run[run.baseline].measured(case)
    return bool(planned is not None and planned.baseline_at) or bool(measured is not None and measured.scale)


def _time_step(point: ScalePoint) -> Interval:
    """On the scale of the times; of a single block the estimate alone."""
    logs = [math.log(wall_s) for wall_s in point.wall_s]
    estimate = trimmed_mean(logs).estimate
    low, high = yuen_interval(logs) if len(logs) > 1 else (estimate, estimate)
    return Interval(estimate=math.exp(estimate), low=math.exp(low), high=math.exp(high))
