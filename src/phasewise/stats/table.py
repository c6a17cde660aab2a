"""The table of docs/measurement.md: what the statistics promise, by simulation."""

from __future__ import annotations

import sys
from pathlib import Path

from phasewise.stats.looks import StopRules
from phasewise.stats.simulate import false_reports, simulate_power

DESIGNS = (
    ("3 sets alone", StopRules(least_sets=3, most_sets=3), False),
    ("3 sets, pooled", StopRules(least_sets=3, most_sets=3), True),
    ("3 to 6 sets until precise, pooled", StopRules(least_sets=3, most_sets=6), True),
    ("10 sets, pooled", StopRules(least_sets=10, most_sets=10), True),
)
GAINS = (0.005, 0.01, 0.02)
# 5 cases and 3 kinds, one difference of three in each
REPORT = [[0.05, 0.0, 0.0]] * 15
# runs of eight comparisons each, and reports
RUNS = 100
OPEN, CLOSE = "<!-- simulation -->", "<!-- /simulation -->"


def render_power() -> str:
    """Markdown: for each design the share of wrong intervals, of false alarms, and of true gains that are found."""
    gains = " / ".join(f"{gain:.1%}" for gain in GAINS)
    lines = [
        f"| design | intervals that miss the truth (nominal 5 %) | A/A called FASTER or SLOWER | FASTER at a true gain of {gains} | half-width | reports of 45 with a false alarm |",
        "|---|---|---|---|---|---|",
    ]
    for name, rules, pooled in DESIGNS:
        alike = simulate_power(gain=0.0, rules=rules, runs=RUNS, pooled=pooled)
        found = [simulate_power(gain=gain, rules=rules, runs=RUNS, pooled=pooled).faster for gain in GAINS]
        powers = " / ".join(f"{share:.0%}" for share in found)
        false = false_reports(gains=REPORT, rules=rules, runs=RUNS, pooled=pooled)
        alarms = alike.faster + alike.slower
        lines.append(
            f"| {name} | {alike.missed:.1%} | {alarms:.1%} | {powers} | {alike.half_width:.2%} | {false:.0%} |"
        )
    return "\n".join(lines)


def renew(path: Path) -> None:
    """Put the table between the markers of the file at `path`."""
    before, rest = path.read_text().split(OPEN)
    path.write_text(f"{before}{OPEN}\n{render_power()}\n{CLOSE}{rest.split(CLOSE)[1]}")


if __name__ == "__main__":
    renew(Path(sys.argv[1]))
