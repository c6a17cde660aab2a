"""What runs in the process of a case: plain values in, a plain record out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from phasewise.bench.case import build_case, find_case, torch_device
from phasewise.bench.ranks import join_ranks
from phasewise.model.sources import name_loaded
from phasewise.records.plan import VariantPlan
from phasewise.records.validate import CaseValidation
from phasewise.validate.case import Ancestor, count_steps, validate_case
from phasewise.validate.trajectory import follow, load, save


def validate_plain(payload: dict[str, Any]) -> dict[str, Any]:
    """`validate_case` of {plan, case, root, baseline, ancestor}; an ancestor is {variant, file}."""
    plan = msgspec.convert(payload["plan"], VariantPlan)
    baseline, ancestor = payload["baseline"], payload["ancestor"]
    ranks = join_ranks(torch_device(plan.device))
    found = validate_case(
        plan,
        payload["case"],
        Path(payload["root"]),
        baseline=None if baseline is None else msgspec.convert(baseline, CaseValidation),
        ancestor=None
        if ancestor is None
        else Ancestor(variant=ancestor["variant"], results=load(Path(ancestor["file"]))),
    )
    ranks.leave()
    return msgspec.to_builtins(msgspec.structs.replace(found, loaded=tuple(name_loaded(sys.modules))))


def follow_plain(payload: dict[str, Any]) -> None:
    """Follow an ancestor, {plan, case, root}, and save its results at `file`."""
    plan = msgspec.convert(payload["plan"], VariantPlan)
    steps = count_steps(find_case(plan, payload["case"]))
    opened = build_case(plan, payload["case"], Path(payload["root"]), ring=steps)
    try:
        save(follow(opened, steps), Path(payload["file"]))
    finally:
        opened.program.close()
