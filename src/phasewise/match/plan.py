"""The plan of each side of a match: a variant of a workload that is made up for them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from phasewise.match.known import Base
from phasewise.match.side import Side, write_side
from phasewise.model.fields import MOST_RELATIVE
from phasewise.model.workload import DEFAULT_TIERS, Tolerance
from phasewise.records.base import Scalar
from phasewise.records.errors import UserError
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation, Outcome

FUNCTIONS = "phasewise.match.functions"
CASE = "call"
BASE, CANDIDATE = "base", "candidate"
# arms of the rounds: the base twice, of which one shows how far its own processes stray
ARMS = {"parent": BASE, "variant": CANDIDATE, "control": BASE}
TIMEOUT_S = 300.0
# results may be off by so many times the base's own error where the tier allows less, as long as that is no more than so many times the tier
TIMES_OWN = 4.0
MOST_WIDENED = 100.0


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long a match goes."""

    sets: int = 3
    rounds: int = 12
    # for the rounds
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the plans of both sides have in common."""

    # the base, with its name
    side: Side
    device: str
    overrides: Mapping[str, Scalar]
    # arguments of the base's class, and its weights
    start: Path
    base: Base


def choose_allowance(tier: str, setting: Setting) -> Allowance:
    """The tier, the relaxed one for results in half precision, or what the base declares instead; twice as much where the reference is
    not in float64.

    :raises UserError: the base allows more than the tier and does not say why
    """
    name = "relaxed" if setting.base.is_half else tier
    chosen, own = DEFAULT_TIERS[name], setting.base.tolerance
    if own is not None:
        is_wider = own.rtol > chosen.rtol or own.atol > chosen.atol
        if is_wider and not own.why.strip():
            raise UserError(
                f"judge: get_tolerance() of the base allows rtol {own.rtol:g} and atol {own.atol:g}, more than the {name} tier's "
                f'{chosen.rtol:g} and {chosen.atol:g}; give "why" beside them, which stands in the verdict'
            )
        # how far beyond the base's own error is part of how far a result may lie
        times = DEFAULT_TIERS["relaxed" if is_wider else name].times_baseline
        chosen = Tolerance(own.rtol, own.atol, times_baseline=times, why=own.why)
    factor = 1.0 if setting.base.dtype == "float64" else 2.0
    allowance = Allowance(rtol=chosen.rtol, atol=chosen.atol, times_baseline=chosen.times_baseline, why=chosen.why)
    return widen(allowance, factor)


def widen(allowance: Allowance, times: float) -> Allowance:
    """`times` the tolerances; the relative one up to what any may have."""
    rtol = min(times * allowance.rtol, MOST_RELATIVE)
    return msgspec.structs.replace(allowance, rtol=rtol, atol=times * allowance.atol)


def find_widening(own: CaseValidation, *, is_declared: bool) -> float | None:
    """By how much the tier is widened for results that are off as the base itself is; None if by nothing, or by too much.

    A base that just keeps the tier would else have those refused that are off by a little more. `is_declared`: it is the base's own, and widened only where the base does not keep it itself.
    """
    failed = [error.worst for error in own.errors if error.outcome is Outcome.FAIL]
    if any(each is None for each in failed) or (is_declared and not failed):
        return None
    times = TIMES_OWN * max((error.worst for error in own.errors if error.worst is not None), default=0.0)
    return times if 1 < times <= MOST_WIDENED else None


def plan_side(role: str, side: Side, setting: Setting, allowance: Allowance, effort: Effort) -> VariantPlan:
    """The plan of a side whose name was found."""
    shape: dict[str, Any] = {
        "base": write_side(setting.side), "overrides": json.dumps(dict(setting.overrides)), "start": str(setting.start),
        "evaluates": setting.base.evaluates, "dtype": setting.base.dtype, "where": setting.device, "results": json.dumps(dict(setting.base.results)),
    }  # fmt: skip
    budget = Budget(
        min_rounds=effort.rounds, max_rounds=effort.rounds, min_sets=effort.sets, max_sets=effort.sets, seconds=effort.seconds,
        timeout_s=TIMEOUT_S, energy_window_s=0.0,
    )  # fmt: skip
    is_base = role == BASE
    switches: dict[str, Scalar] = {"side": write_side(side)}
    case = PlannedCase(
        case=CASE, shape=shape, switches=switches, inputs="resident",
        parent=None if is_base else BASE, ancestors=() if is_base else (BASE,),
    )  # fmt: skip
    return VariantPlan(
        protocol=0, workload="match", source=FUNCTIONS, run=f"match-{setting.device}", size="tiny", device=setting.device,
        variant=role, kind=Kind.BASELINE if is_base else Kind.PHASE, environment=name_paths(), switches=switches, cases=(case,),
        tier="", allowance=allowance, budget=budget, lock="", sources="",
    )  # fmt: skip


def name_paths() -> dict[str, str]:
    """An environment in which a process imports what this one can, and last what lies here: a command's own path lacks that."""
    here = str(Path.cwd())
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys((*(entry or here for entry in sys.path), here)))}
