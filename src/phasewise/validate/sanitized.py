"""One step of a variant at the tiny size, to be watched: `python -m phasewise.validate.sanitized PLAN CASE ROOT`."""

from __future__ import annotations

import sys
from pathlib import Path

from phasewise.bench.case import build_case
from phasewise.bench.functions import load_functions
from phasewise.records.plan import VariantPlan
from phasewise.store import read
from phasewise.validate.sanitizer import DONE


def step_once(file: Path, case: str, root: Path) -> None:
    """Build at the tiny shape, or at the planned one where there is none, step once and wait."""
    plan = read(file, VariantPlan)
    tiny = load_functions(plan.source, root).workload.cases[case].tiny
    built = build_case(plan, case, root, ring=1, shape=tiny)
    built.step(built.place(0))
    built.synchronize()
    built.program.close()


if __name__ == "__main__":
    step_once(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    print(DONE)
