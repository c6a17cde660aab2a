"""Prepare a workload in a process of its own, where the functions of a user may import and break what they like. Imports no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from phasewise.model.freshness import Closure
from phasewise.model.layout import Layout
from phasewise.model.sources import name_loaded
from phasewise.records.errors import UserError
from phasewise.records.plan import PreparePlan
from phasewise.records.prepare import Prepared
from phasewise.records.verdict import Failure
from phasewise.workers.isolated import run_isolated

# an artifact may be a model that has to be trained
TIMEOUT_S = 3600.0


def prepare_in_process(plan: PreparePlan, closure: Closure | None, layout: Layout) -> Prepared:
    """What `prepare_workload` gives.

    Raises:
        UserError: the process failed, died or did not end in time.
    """
    payload = {"plan": msgspec.to_builtins(plan), "root": str(layout.root)}
    answer = run_isolated("phasewise.prepare.apart:prepare_plain", payload, folder=layout.root, timeout_s=TIMEOUT_S)
    if isinstance(answer, Failure):
        raise UserError(f"{plan.workload}: it could not be prepared ({answer.message}); correct {plan.source}")
    loaded = None if closure is None else closure.stamp([answer["loaded"]])
    return msgspec.convert({**answer["prepared"], "loaded": loaded}, Prepared)


def prepare_plain(payload: dict[str, Any]) -> dict[str, Any]:
    """`prepare_workload` of {plan, root}, and the names of the files that it loaded."""
    from phasewise.prepare.workload import prepare_workload

    prepared = prepare_workload(msgspec.convert(payload["plan"], PreparePlan), Layout(Path(payload["root"])))
    return {"prepared": msgspec.to_builtins(prepared), "loaded": name_loaded(sys.modules)}
