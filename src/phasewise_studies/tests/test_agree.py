"""What a chart of times shows is what the tables beside it say."""

from __future__ import annotations

import itertools

import pytest

from phasewise.model.layout import Layout
from phasewise.report.figures.ladder import draw_ladder
from phasewise.report.format import ratio_interval, time
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
        tabled = {name: row.verdict.over_parent for name, row in rows.items()}
        tabled |= {peer.name: peer.ratio for peer in case.peers}
        (values,) = (layer["data"]["values"] for layer in [figure.spec] if "data" in layer)
        for rung, value in zip(case.ladder, values, strict=True):
            assert (
                value["ratio"] == ratio_interval(tabled.get(rung.name)) and time(rung.time_s.estimate) in value["name"]
            )
        stack = [rung for rung in case.ladder if rung.kind in ("baseline", "phase")]
        for before, after in itertools.pairwise(stack):
            over = rows[after.name].verdict.over_parent
            assert over is None or before.time_s.estimate / after.time_s.estimate == pytest.approx(over.estimate)
        assert case.stack == stack[-1].name and stack[-1].time_s == rows[stack[-1].name].time_s
        drawn += 1
    assert drawn
