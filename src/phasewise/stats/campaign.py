"""What the statistics promise, by simulation: `python -m phasewise.stats.campaign`.

For each law of noise and each amount of data: runs of eight comparisons and one A/A control under the rules that
`analyse` judges by, and reports of 45 comparisons in 15 families without a control.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from phasewise.stats.looks import StopRules
from phasewise.stats.noise import LAWS
from phasewise.stats.simulate import Power, false_reports, simulate_power


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """An amount of data, and whether the comparisons of a run learn from each other."""

    rules: StopRules
    shared: bool = True


DESIGNS = {
    "3 sets alone": Design(rules=StopRules(least_sets=3, most_sets=3, most_rounds=24), shared=False),
    "3 sets": Design(rules=StopRules(least_sets=3, most_sets=3, most_rounds=24)),
    "3 to 6 sets": Design(rules=StopRules(least_sets=3, most_sets=6, most_rounds=24)),
    "10 sets": Design(rules=StopRules(least_sets=10, most_sets=10, most_rounds=24)),
}
GAINS = (0.005, 0.01, 0.02, 0.05)
# 5 cases and 3 kinds, one difference of three in each
REPORT = [[0.05, 0.0, 0.0]] * 15
# runs without a difference, and reports; a third as many runs at each gain
RUNS = 400
OPEN, CLOSE = "<!-- simulation -->", "<!-- /simulation -->"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What became of one law and one design."""

    law: str
    design: str
    alike: Power
    # in the order of `GAINS`
    gains: tuple[Power, ...]
    # share with a false word
    reports: float


def simulate_cell(law: str, design: str, *, runs: int, seed: int = 0) -> Cell:
    """One line of the table. Raises KeyError for an unknown law or design."""
    noise, of = LAWS[law], DESIGNS[design]

    def power(gain: float, runs: int) -> Power:
        return simulate_power(gain=gain, rules=of.rules, runs=runs, noise=noise, seed=seed, shared=of.shared)

    fewer = max(1, runs // 3)
    return Cell(
        law=law,
        design=design,
        alike=power(0.0, runs),
        gains=tuple(power(gain, fewer) for gain in GAINS),
        reports=false_reports(gains=REPORT, rules=of.rules, runs=runs, noise=noise, seed=seed, shared=of.shared),
    )


def simulate_cells(laws: Sequence[str], designs: Sequence[str], *, runs: int, jobs: int, seed: int = 0) -> list[Cell]:
    """The cells in this order, `jobs` processes at a time; their numbers do not depend on `jobs`."""
    asked = list(product(laws, designs))
    if jobs == 1:
        return [simulate_cell(law, design, runs=runs, seed=seed) for law, design in asked]
    with ProcessPoolExecutor(jobs) as pool:
        begun = [pool.submit(simulate_cell, law, design, runs=runs, seed=seed) for law, design in asked]
        return [one.result() for one in begun]


def render_cells(cells: Iterable[Cell]) -> str:
    """The table in Markdown."""
    gains = " / ".join(f"{100 * gain:g}" for gain in GAINS)
    lines = [
        "| noise | sets | false alarms | runs of 8 with one | reports of 45 with one | intervals that miss 1 | and 1.05 "
        f"| SAME at 1 | FASTER at a gain of {gains} % | half-width | sets, rounds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        alike = cell.alike
        found = " / ".join(f"{power.faster:.0%}" for power in cell.gains)
        lines.append(
            f"| {cell.law} | {cell.design} | {alike.faster + alike.slower:.1%} | {alike.alarmed:.1%} | {cell.reports:.1%} "
            f"| {alike.missed:.1%} | {cell.gains[-1].missed:.1%} | {alike.same:.0%} | {found} | {alike.half_width:.2%} "
            f"| {alike.mean_sets:.1f}, {alike.mean_rounds:.0f} |"
        )
    return "\n".join(lines)


def renew(path: Path, table: str) -> None:
    """Put the table between the markers of the file at `path`."""
    before, rest = path.read_text().split(OPEN)
    path.write_text(f"{before}{OPEN}\n{table}\n{CLOSE}{rest.split(CLOSE)[1]}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or renew it in a file."""
    parser = argparse.ArgumentParser(prog="python -m phasewise.stats.campaign", description=__doc__)
    parser.add_argument(
        "--laws", nargs="+", choices=LAWS, default=list(LAWS), metavar="LAW", help=", ".join(LAWS).replace("%", "%%")
    )
    parser.add_argument("--sets", nargs="+", choices=DESIGNS, default=list(DESIGNS), help="amounts of data")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of eight comparisons without a difference")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--into", type=Path, help=f"file to renew between {OPEN} and {CLOSE}, instead of printing")
    chosen = parser.parse_args(arguments)
    table = render_cells(simulate_cells(chosen.laws, chosen.sets, runs=chosen.runs, jobs=chosen.jobs, seed=chosen.seed))
    if chosen.into is None:
        print(table)
    else:
        renew(chosen.into, table)


if __name__ == "__main__":
    main()
