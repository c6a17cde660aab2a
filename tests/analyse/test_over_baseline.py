"""Speed-ups over the baseline: direct where it ran in the same rounds, else chained."""

from __future__ import annotations

import math

import pytest
from synthetic_run import Phase, make_run

from phasewise.records.validate import Outcome
from phasewise.records.verdict import Reason, Status


def test_in_the_same_rounds_it_is_measured_and_not_chained() -> None:
    rows = make_run(Phase(name="a", speedup=2.0), Phase(name="b", speedup=1.5)).rows()
    verdict = rows["b"].verdict
    assert not verdict.chained
    assert verdict.over_baseline is not None and verdict.over_baseline.estimate == pytest.approx(3.0, rel=0.01)


def test_a_slow_baseline_is_chained_and_the_interval_widens() -> None:
    rows = make_run(
        Phase(name="a", speedup=20.0), Phase(name="b", speedup=1.5), Phase(name="c", speedup=2.0), slow_baseline=True
    ).rows()
    assert not rows["a"].verdict.chained
    assert rows["c"].verdict.chained
    found = rows["c"].verdict.over_baseline
    assert found is not None and found.low <= 60.0 <= found.high
    widths = [math.log(row.high / row.low) for row in (rows["a"].verdict.over_baseline, found) if row is not None]
    assert widths[1] > widths[0]


def test_an_enabled_phase_has_no_speed_up_and_neither_has_what_stands_on_it() -> None:
    from phasewise.records.verdict import Failure

    oom = Failure(reason=Reason.OUT_OF_MEMORY, message="no")
    run = make_run(
        Phase(name="a", parent_failure=oom),
        Phase(name="b", speedup=1.5),
        slow_baseline=True,
        baseline=Phase(name="baseline", failure=oom),
    )
    rows = run.rows()
    assert rows["a"].verdict.status is Status.ENABLED
    assert rows["b"].verdict.status is Status.FASTER
    assert rows["b"].verdict.over_baseline is None


def test_a_parent_that_failed_its_gate_for_want_of_memory_makes_the_child_enabled() -> None:
    from phasewise.records.verdict import Failure

    oom = Failure(reason=Reason.OUT_OF_MEMORY, message="no room")
    run = make_run(
        Phase(name="red", outcome=Outcome.FAIL),
        Phase(name="rows", has_parent_arm=False),
        baseline=Phase(name="baseline", gate_failure=oom, failure=oom),
        slow_baseline=True,
    )
    verdict = run.verdict("rows")
    assert (verdict.status, verdict.reason) == (Status.ENABLED, Reason.PARENT_CANNOT_RUN)
    assert "00-baseline" in verdict.detail
