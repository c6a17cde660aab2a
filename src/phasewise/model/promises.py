"""The file `promises.yaml` beside a workload: what the user's document promises, and what of the workload answers each line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from phasewise.model.check import CORE_CHECKS, list_checks
from phasewise.model.plain_yaml import read_yaml
from phasewise.model.workload import Workload
from phasewise.records.errors import PlanError
from phasewise.records.promise import ANSWERS, GATE, Document, Promise

FILE = "promises.yaml"


def read_promises(path: Path, workload: Workload, targets: Iterable[str], checks: Path | None) -> Document | None:
    """The document's promises, each answered by something that the workload has; None where there is no such file.

    Raises:
        PlanError: one sentence, at the first mistake.
    """
    if not path.is_file():
        return None
    try:
        document = msgspec.convert(read_yaml(path), Document)
    except msgspec.ValidationError as error:
        raise PlanError(f"{path}: {error}; a promise has a quote, and one of {', '.join(ANSWERS)}") from error
    known = {
        "target": set(targets),
        "check": {GATE, *CORE_CHECKS, *(list_checks(checks) if checks is not None else ())},
        "phase": {phase.name for phase in workload.phases},
        "risk": {risk.title for risk in (*workload.risks, *(one for phase in workload.phases for one in phase.risks))},
    }
    for promise in document.promises:
        _check_promise(promise, known, path)
    return document


def _check_promise(promise: Promise, known: dict[str, set[str]], path: Path) -> None:
    named = [name for name in ANSWERS if getattr(promise, name)]
    place = f"{path}: {promise.quote!r}"
    if len(named) != 1 and named != ["check", "phase"]:
        raise PlanError(
            f"{place} is answered by {' and '.join(named) or 'nothing'}; give one of {', '.join(ANSWERS)}, or a check in a phase"
        )
    for name in named:
        there = known.get(name)
        if there is not None and getattr(promise, name) not in there:
            raise PlanError(
                f"{place}: {name} {getattr(promise, name)!r} is not in the workload; choose among {', '.join(sorted(there)) or 'none'}"
            )
    if promise.promised is not None and (
        promise.promised[0] > promise.promised[1] or named not in (["target"], ["phase"])
    ):
        raise PlanError(f"{place}: promised {promise.promised} is for a target or a phase, least first; correct it")
