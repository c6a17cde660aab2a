"""The times of a case from the baseline down to the best possible, each from the paired ratio that its row states."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.records.analyse import PeerRow, Row, Rung
from phasewise.records.base import Interval, Seconds


def build_ladder(
    rows: Sequence[Row], peers: Sequence[PeerRow], end: str | None, best_s: Seconds | None
) -> tuple[Rung, ...]:
    """The stack from its first program to its `end`, then peers that give the same as the end, and the best possible time.

    A rung is the time of the next one times the ratio between the two, so that no two rungs contradict the ratio in the
    table; without a ratio it is the time that was measured. Empty where the end was not timed.
    """
    by_variant = {row.variant: row for row in rows}
    last = by_variant.get(end or "")
    if last is None or last.time_s is None:
        return ()
    rungs = [_rung(last, last.time_s)]
    row, time = last, last.time_s
    seen = {last.variant}
    while row.parent in by_variant and row.parent not in seen:
        parent, over = by_variant[row.parent], row.verdict.over_parent
        told = _scale(time.estimate, over) if over is not None else parent.time_s
        if told is None:
            break
        rungs.insert(0, _rung(parent, told))
        seen.add(parent.variant)
        row, time = parent, told
    beside = [peer for peer in peers if peer.ratio is not None and peer.same_output and peer.variant == last.variant]
    rungs += [
        Rung(name=peer.name, kind="peer", time_s=_scale(last.time_s.estimate, peer.ratio), ratio=peer.ratio)
        for peer in beside
        if peer.ratio is not None
    ]
    if best_s:
        rungs.append(Rung(name="best possible", kind="best", time_s=Interval(estimate=best_s, low=best_s, high=best_s)))
    return tuple(rungs)


def _rung(row: Row, time: Interval) -> Rung:
    return Rung(name=row.variant, kind=row.kind.value, time_s=time, ratio=row.verdict.over_parent)


def _scale(time_s: Seconds, ratio: Interval) -> Interval:
    return Interval(estimate=time_s * ratio.estimate, low=time_s * ratio.low, high=time_s * ratio.high)
