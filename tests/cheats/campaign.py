"""Compare honest programs with themselves, as the graph would compare a phase with its parent, and count what is claimed or refused.

`python tests/cheats/campaign.py [COMPARISONS [DEVICE]]`: 200 take about half an hour of two cores. No comparison may be refused, and at
most 1 % may be called faster or slower.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from play import HERE, judge_once, plan, validate

from phasewise.records.verdict import Status, Verdict

ALIKE = sorted((HERE / "alike").glob("*.py"))
CLAIMS = frozenset({Status.FASTER, Status.SLOWER})
MOST_CLAIMED = 0.01


def compare_with_itself(file: Path, times: int, device: str) -> list[Verdict]:
    """Verdicts on so many comparisons, all behind one gate."""
    with tempfile.TemporaryDirectory(prefix="phasewise-alike-") as folder:
        root = Path(folder)
        planned = plan(file, root, size="tiny" if device == "cpu" else "full", device=device)
        validate(planned, root)
        return [judge_once(planned, root, device) for _ in range(times)]


def misses(verdict: Verdict) -> bool:
    """Whether the interval of the ratio leaves out 1."""
    ratio = verdict.over_parent
    return ratio is not None and not ratio.low <= 1.0 <= ratio.high


def main(comparisons: int, device: str) -> int:
    """Print a line for each program; 1 if an honest one was refused, or too many claims were made."""
    found: list[Verdict] = []
    for file in ALIKE:
        verdicts = compare_with_itself(file, comparisons // len(ALIKE), device)
        counts = Counter(f"{one.status} ({one.reason})" for one in verdicts)
        print(f"{file.stem}: {dict(counts)}, {sum(map(misses, verdicts))} intervals leave out 1", flush=True)
        found += verdicts
    claimed = sum(one.status in CLAIMS for one in found)
    refused = [one for one in found if one.status in (Status.INVALID, Status.FAILED)]
    print(
        f"{len(found)} comparisons: {claimed} claimed, {len(refused)} refused, {sum(map(misses, found))} intervals leave out 1"
    )
    for one in refused:
        print(f"  {one.reason}: {one.detail}")
    return int(bool(refused) or claimed > MOST_CLAIMED * len(found))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2] if len(sys.argv) > 2 else "cpu"))
