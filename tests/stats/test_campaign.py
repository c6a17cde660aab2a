"""The promises of docs/measurement.md: a small seeded campaign always, the whole of it among the slow tests."""

from __future__ import annotations

import math

import pytest

from phasewise.stats import campaign
from phasewise.stats.campaign import DESIGNS, RUNS, Cell, render_cells, renew, simulate_cell, simulate_cells
from phasewise.stats.noise import LAWS

# biases: no interval over paired rounds holds the truth, and a guard keeps them from being called a gain
BIASED = "warm-up in one arm"
# as long as three short sets: of these the guard sees too little
SLOW = "slow warm-up in one arm"


def bound(rate: float, cases: float) -> float:
    """Upper 0.5 % point of a share that is `rate` in truth: 84 cells are looked at."""
    return rate + 2.576 * math.sqrt(rate * (1.0 - rate) / cases)


def check(cell: Cell, *, runs: int) -> None:
    if cell.law == SLOW and cell.design.startswith("3 sets"):
        return
    alarms = cell.alike.faster + cell.alike.slower
    # comparisons of a run learn from each other, so they count as half as many
    assert alarms <= bound(0.01, 4 * runs), cell
    assert cell.alike.alarmed <= bound(0.05, runs), cell
    assert cell.reports <= bound(0.05, runs), cell
    assert cell.law in (BIASED, SLOW) or cell.alike.missed <= bound(0.06, 4 * runs), cell


@pytest.mark.parametrize("law", ["a GPU box", "bistable process", BIASED, SLOW])
def test_a_small_campaign_keeps_its_promises(law):
    for design in ("3 sets alone", "3 sets", "3 to 6 sets"):
        check(simulate_cell(law, design, runs=9), runs=9)


def test_more_sets_find_smaller_gains():
    cells = simulate_cells(["process 0.5 %"], ["3 sets", "3 to 6 sets", "10 sets"], runs=12, jobs=1)
    three, six, ten = (cell.gains[1].faster for cell in cells)
    assert three < min(six, ten) and min(six, ten) > 0.9


def test_the_numbers_do_not_depend_on_how_many_processes_made_them():
    asked = ["independent"], ["3 sets", "3 sets alone"]
    assert simulate_cells(*asked, runs=3, jobs=1) == simulate_cells(*asked, runs=3, jobs=2)


def test_the_command_tells_its_laws(capsys):
    with pytest.raises(SystemExit):
        campaign.main(["--help"])
    assert "process 0.3 %" in " ".join(capsys.readouterr().out.split())


def test_the_command_prints_a_table_and_renews_one(tmp_path, capsys):
    campaign.main(["--laws", "independent", "--sets", "3 sets", "--runs", "3"])
    table = capsys.readouterr().out.strip()
    assert table.splitlines()[-1].startswith("| independent | 3 sets |")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{campaign.OPEN}\nold\n{campaign.CLOSE}\nafter\n")
    renew(page, table)
    assert page.read_text() == f"before\n{campaign.OPEN}\n{table}\n{campaign.CLOSE}\nafter\n"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_whole_campaign_keeps_its_promises_and_is_what_the_documentation_shows(repository):
    cells = simulate_cells(list(LAWS), list(DESIGNS), runs=RUNS, jobs=2)
    for cell in cells:
        check(cell, runs=RUNS)
    text = (repository / "docs/measurement.md").read_text()
    shown = text.split(campaign.OPEN)[1].split(campaign.CLOSE)[0]
    assert shown.strip() == render_cells(cells), "run `make tables`"
