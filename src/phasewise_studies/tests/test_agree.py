"""What a chart of times shows is what the tables beside it say."""

from __future__ import annotations

import itertools

import pytest

from phasewise.model.layout import Layout
from phasewise.report.figures.ladder import draw_ladder
from phasewise.report.format import time
from phasewise.run import Run
from phasewise_studies.testing import REPOSITORY, RUNS


@pytest.mark.parametrize(("workload", "run"), RUNS)
def test_the_chart_of_times_states_the_ratios_of_the_tables(workload: str, run: str) -> None:
    drawn = 0
    for case in Run(workload, run, layout=Layout(REPOSITORY)).results:
        figure = draw_ladder(case, "ladder")
        if figure is None:
            continue
        rows = {row.variant: row for row in case.rows}
        values = figure.spec["layer"][0]["data"]["values"]
        for rung, value in zip(case.ladder, values, strict=True):
            drawn_s = (value["low"], value["middle"], value["high"])
            assert (value["name"], *drawn_s) == (rung.name, rung.time_s.low, rung.time_s.estimate, rung.time_s.high)
            assert value["told"] == time(rung.time_s.estimate)
        stack = [rung for rung in case.ladder if rung.kind in ("baseline", "phase")]
        for before, after in itertools.pairwise(stack):
            over = rows[after.name].verdict.over_parent
            assert over is None or before.time_s.estimate / after.time_s.estimate == pytest.approx(over.estimate)
        assert case.stack == stack[-1].name and stack[-1].time_s == rows[stack[-1].name].time_s
        drawn += 1
    assert drawn
