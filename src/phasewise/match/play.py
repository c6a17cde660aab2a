"""Play a match: plan the two functions as variants, judge both at the gate, time them in rounds, conclude. Imports no torch."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from phasewise.environment import name_gpus
from phasewise.judge.case import Judge, JudgeFailed
from phasewise.match.verdict import Judgement, judge_times, refuse_at_gate
from phasewise.measure.compare import name_function
from phasewise.measure.driver import Entrant
from phasewise.measure.neighbours import watch_machine
from phasewise.measure.processes import Processes
from phasewise.measure.sampler import sample_case
from phasewise.measure.sampling import Tools
from phasewise.model.workload import DEFAULT_TIERS
from phasewise.records.errors import UserError
from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan
from phasewise.records.validate import CaseValidation, Outcome
from phasewise.records.verdict import Failure, Reason
from phasewise.validate.case import validate_case
from phasewise.workers.isolated import run_isolated

FUNCTIONS = "phasewise.match.functions"
CASE = "call"
BASE, CANDIDATE = "base", "candidate"
# arms of the rounds: the base twice, of which one shows how far its own processes stray
ARMS = {"parent": BASE, "variant": CANDIDATE, "control": BASE}
TIMEOUT_S = 300.0
# where the base itself is off by more than the tier allows, results may be off by so many times the base's own error,
# as long as that is no more than so many times the tier
TIMES_OWN = 4.0
MOST_WIDENED = 100.0


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long a match goes."""

    sets: int = 3
    rounds: int = 12
    # for the rounds
    seconds: float = 60.0


def judge(
    base: str | Callable[..., Any],
    candidate: str | Callable[..., Any],
    *,
    device: str = "auto",
    tier: str = "moderate",
    effort: Effort | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Judgement:
    """Whether `candidate` gives what `base` gives, and how much faster.

    Both are named "file.py:function" or "pkg.module:function" and are called with what `make_inputs(seed)` or `get_inputs()` of the base's
    module gives. Results are compared with the base in float64, on batches that are drawn; a candidate that is wrong gets no ratio.

    :raises UserError: a function or its inputs don't exist or are of another kind, or the base itself fails
    """
    targets = {BASE: name_function(base), CANDIDATE: name_function(candidate)}
    device = choose_device(device)
    progress("the base is called once")
    told = probe_base(targets[BASE])
    plans = plan_match(targets, device, choose_allowance(tier, told), told, effort or Effort())
    with tempfile.TemporaryDirectory(prefix="phasewise-match-") as folder:
        root = Path(folder)
        progress("the gate: the base")
        own = validate_case(plans[BASE], CASE, root)
        times = _find_widening(own)
        if times is not None:
            plans = {side: _widen(plan, times) for side, plan in plans.items()}
            progress(f"the base is off by more than the tier allows: {times:.3g} times as much is allowed")
            own = validate_case(plans[BASE], CASE, root)
        about: dict[str, Any] = {
            "base": targets[BASE], "candidate": targets[CANDIDATE], "device": device,
            "reference": told["dtype"] or "the dtype of its inputs", "allowance": plans[CANDIDATE].allowance,
            "widened": times or 1.0,
        }  # fmt: skip
        if own.outcome is not Outcome.PASS:
            raise UserError(
                f"judge: the base can't be judged by itself ({own.message}); choose another tier or other inputs"
            )
        progress("the gate: the candidate")
        gate = validate_case(plans[CANDIDATE], CASE, root, baseline=own)
        _check_names(gate, targets[CANDIDATE])
        refused = refuse_at_gate(gate)
        if refused is not None:
            status, reason, detail = refused
            return Judgement(status=status, reason=reason, detail=detail, gate=gate, **about)
        progress("rounds")
        measured = _time(plans, own, root, progress)
    return msgspec.convert(judge_times(measured, about | {"gate": gate, "measurement": measured}), Judgement)


def choose_device(device: str) -> str:
    """The named device; `auto` is a GPU where there is one.

    :raises UserError: there is no such device here
    """
    if device == "auto":
        return "cuda" if name_gpus() else "cpu"
    if device not in ("cpu", "cuda"):
        raise UserError(f"judge: device {device!r} is unknown; auto, cpu and cuda are allowed")
    if device == "cuda" and not name_gpus():
        raise UserError("judge: no NVIDIA GPU is found here; leave --device out, or set cpu")
    return device


def probe_base(base: str) -> dict[str, Any]:
    """What `functions.probe` tells of the base, in a process of its own; raises UserError where it can't be called."""
    told = run_isolated(f"{FUNCTIONS}:probe", {"base": base}, environment=_paths(), timeout_s=TIMEOUT_S)
    if isinstance(told, Failure):
        raise UserError(f"judge: the base can't be run ({told.message})")
    return dict(told)


def choose_allowance(tier: str, told: dict[str, Any]) -> Allowance:
    """The tier; the relaxed one for results in half precision, and twice as much where the reference is not in float64."""
    chosen = DEFAULT_TIERS["relaxed" if told["half"] else tier]
    factor = 1.0 if told["dtype"] == "float64" else 2.0
    return Allowance(rtol=factor * chosen.rtol, atol=factor * chosen.atol, times_baseline=chosen.times_baseline)


def _find_widening(own: CaseValidation) -> float | None:
    """By how much the tier has to be widened for the base to be judged by it; None if by nothing, or by too much."""
    worst = [error.worst for error in own.errors if error.outcome is Outcome.FAIL]
    if not worst or any(each is None for each in worst):
        return None
    times = TIMES_OWN * max(each for each in worst if each is not None)
    return times if times <= MOST_WIDENED else None


def _widen(plan: VariantPlan, times: float) -> VariantPlan:
    allowance = plan.allowance
    wider = msgspec.structs.replace(allowance, rtol=times * allowance.rtol, atol=times * allowance.atol)
    return msgspec.structs.replace(plan, allowance=wider)


def plan_match(
    targets: dict[str, str], device: str, allowance: Allowance, told: dict[str, Any], effort: Effort
) -> dict[str, VariantPlan]:
    """The plans of both sides."""
    shape = {"base": targets[BASE], "dtype": told["dtype"], "results": json.dumps(told["results"])}
    budget = Budget(
        min_rounds=effort.rounds, max_rounds=effort.rounds, min_sets=effort.sets, max_sets=effort.sets, seconds=effort.seconds,
        timeout_s=TIMEOUT_S, energy_window_s=0.0,
    )  # fmt: skip
    return {
        side: VariantPlan(
            protocol=0, workload="match", source=FUNCTIONS, run=f"match-{device}", size="tiny", device=device, variant=side,
            kind=Kind.BASELINE if side == BASE else Kind.PHASE, environment=_paths(), switches={"target": target},
            cases=(
                PlannedCase(
                    case=CASE, shape=shape, switches={"target": target}, inputs="resident",
                    parent=None if side == BASE else BASE, ancestors=() if side == BASE else (BASE,),
                ),
            ),
            tier="", allowance=allowance, budget=budget, lock="", sources="",
        )
        for side, target in targets.items()
    }  # fmt: skip


def _time(plans: dict[str, VariantPlan], own: CaseValidation, root: Path, progress: Callable[[str], None]) -> Any:
    """The base, the candidate and the base once more, in the same rounds."""
    judge = Judge(plans[CANDIDATE], CASE, root, dict.fromkeys(ARMS, 1))
    try:
        judge.open(own)
        entrants = {
            arm: Entrant(arm=arm, variant=side, launches=(judge.launch(arm, plans[side]),))
            for arm, side in ARMS.items()
        }
        tools = Tools(watch=watch_machine(plans[BASE].device))
        return sample_case(CASE, Processes(entrants), [("parent", "variant")], plans[BASE].budget, tools, judge=judge)
    except JudgeFailed as died:
        raise UserError(f"judge: the base can't be run ({died.failure.message})") from died
    finally:
        judge.close()


def _check_names(gate: CaseValidation, target: str) -> None:
    """Raise UserError where the candidate does not even exist."""
    if gate.failure is not None and gate.failure.reason is Reason.BAD_PROGRAM and target in gate.failure.message:
        raise UserError(f"judge: {gate.failure.message}")


def _paths() -> dict[str, str]:
    """Its processes import what this one can."""
    return {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
