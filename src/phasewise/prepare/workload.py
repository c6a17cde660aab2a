"""Prepare one workload: run its `prepare` once, list what it made, and record the work that each case declares."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from phasewise.bench.functions import load_functions
from phasewise.model.data import use_data_folder
from phasewise.model.layout import Layout
from phasewise.model.workload import Shape
from phasewise.records.errors import PlanError
from phasewise.records.machine import RATES
from phasewise.records.plan import PreparePlan
from phasewise.records.prepare import Artifact, CaseWork, Prepared


def prepare_workload(plan: PreparePlan, layout: Layout) -> Prepared:
    """Call the program's `prepare(folder)`, if it has one, with the workload's data folder."""
    functions = load_functions(plan.source, layout.root)
    folder = layout.data(plan.workload)
    use_data_folder(folder)
    start = time.perf_counter()
    if functions.prepare is not None:
        folder.mkdir(parents=True, exist_ok=True)
        functions.prepare(folder)
    work = []
    for case, shape in plan.shapes.items():
        declared = functions.work(case, Shape(**shape))
        if declared.dtype not in RATES:
            raise PlanError(
                f"{plan.source}: the work of case {case!r} has dtype {declared.dtype!r}; choose among {', '.join(RATES)}, "
                "whose rates are measured"
            )
        work.append(
            CaseWork(
                case=case,
                items=declared.items,
                flops=declared.flops,
                bytes=declared.bytes,
                working_set_bytes=declared.working_set_bytes,
                dtype=declared.dtype,
                barriers=declared.barriers,
                item=declared.item,
                counted=declared.counted,
            )
        )
    return Prepared(
        workload=plan.workload,
        run=plan.run,
        folder=layout.relative(folder),
        work=tuple(work),
        artifacts=tuple(_list_artifacts(folder, layout)),
        seconds=time.perf_counter() - start,
    )


def _list_artifacts(folder: Path, layout: Layout) -> list[Artifact]:
    found = []
    for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if path.is_file():
            content = path.read_bytes()
            found.append(
                Artifact(path=layout.relative(path), sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
            )
    return found
