"""A chart and the table beside it say the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phasewise.model.layout import Layout
from phasewise.report import format as show
from phasewise.report.blocks import Beside, Block, Figure, Group, Page, Table
from phasewise.report.content import make_pages
from phasewise.report.html import plain
from phasewise.report.trials import leave_out_trials
from phasewise.run import Run
from report.make import make_records

ROOT = Path(__file__).resolve().parents[2]
ON_RECORD = leave_out_trials({path.parts[-3:-1] for path in ROOT.glob("profiles/records/*/*/summary.json")})
# charts of which no table stands beside them: over time, and of declared work beside kernels
WITHOUT_TABLE = ("check-", "step-", "roofline-", "memory-")


def read(name: tuple[str, str] | None) -> Run:
    return make_records() if name is None else Run(*name, layout=Layout(ROOT), forgiving=True)


@pytest.fixture(scope="module", params=[None, *ON_RECORD], ids=str)
def pages(request: pytest.FixtureRequest) -> tuple[Page, ...]:
    return make_pages(read(request.param))


def walk(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Group | Beside):
            yield from walk(block.blocks)


def pairs(pages: tuple[Page, ...]) -> Iterator[tuple[Figure, list[Table]]]:
    for page in pages:
        for section in page.sections:
            for block in walk(section.blocks):
                if isinstance(block, Beside):
                    # all predictions stand in the table above, their chart beside the rules
                    near = walk(section.blocks) if section.id == "ledger" else block.blocks
                    tables = [one for one in near if isinstance(one, Table)]
                    yield from ((one, tables) for one in block.blocks if isinstance(one, Figure))


def rows_of(figure: Figure) -> list[dict[str, Any]]:
    layers = figure.spec.get("layer", [figure.spec])
    return [row for layer in layers for row in layer["data"]["values"]]


def cells_of(tables: list[Table]) -> set[str]:
    """Every cell, and every column's title: a variant may name a column."""
    titles = {column.title for table in tables for column in table.columns}
    return titles | {plain(cell) for table in tables for row in table.rows for cell in row}


def test_every_number_that_a_chart_writes_stands_in_the_table_beside_it(pages: tuple[Page, ...]) -> None:
    compared = 0
    for figure, tables in pairs(pages):
        if figure.name.startswith(WITHOUT_TABLE):
            continue
        assert tables, figure.name
        cells, text = cells_of(tables), " ".join(cells_of(tables))
        for row in rows_of(figure):
            told = row.get("told")
            if not told or (figure.name.startswith("hardware-") and "at" in row):
                continue
            assert told in cells or told in text, (figure.name, row)
            compared += 1
    assert compared


def test_what_is_drawn_is_what_is_written(pages: tuple[Page, ...]) -> None:
    compared = 0
    for figure, tables in pairs(pages):
        for row in rows_of(figure):
            if figure.name.startswith("ladder-") and row.get("middle") is not None:
                assert show.time(row["middle"]) == row["told"]
                assert row["low"] <= row["middle"] <= row["high"]
                compared += 1
            if figure.name.startswith(("breakdown-", "before-after-")) and "kind" in row:
                (table,) = tables
                column = [plain(title.title) for title in table.columns].index(row["name"])
                part = next(one for one in table.rows if plain(one[0]) == row["kind"])
                assert plain(part[column]) == row["told"]
                compared += 1
    assert compared


def test_a_phase_that_gained_by_its_ratio_is_drawn_as_less_time(pages: tuple[Page, ...]) -> None:
    """The times of a ladder are made of the ratios in its table, so the two can't disagree."""
    compared = 0
    for figure, tables in pairs(pages):
        if not figure.name.startswith("ladder-"):
            continue
        (table,) = tables
        drawn = {row["name"]: row["middle"] for row in rows_of(figure) if row.get("middle") is not None}
        ours = [row for row in table.rows if plain(row[1]) in ("your code", "phase")]
        for before, after in itertools.pairwise(ours):
            ratio = plain(after[3]).partition("×")[0].replace("\u202f", "").replace("\xa0", "")
            if ratio not in ("", show.NOTHING):
                told = drawn[plain(before[0])] / drawn[plain(after[0])]
                assert told == pytest.approx(float(ratio), rel=0.01), figure.name
                compared += 1
    assert compared


def test_a_prediction_is_drawn_only_where_one_was_made(pages: tuple[Page, ...]) -> None:
    for figure, tables in pairs(pages):
        if not figure.name.startswith("roadmap-"):
            continue
        (table,) = tables
        made = {plain(row[0]) for row in table.rows if plain(row[2]) != show.NOTHING}
        drawn = {row["name"] for row in rows_of(figure) if row.get("kind") == "predicted from the profile"}
        assert drawn == made


def test_every_chart_stands_beside_something(pages: tuple[Page, ...]) -> None:
    """So that no half of a wide screen is empty."""
    beside = {figure.name for figure, _ in pairs(pages)}
    for page in pages:
        for section in page.sections:
            alone = [one.name for one in walk(section.blocks) if isinstance(one, Figure) and one.name not in beside]
            assert not alone
