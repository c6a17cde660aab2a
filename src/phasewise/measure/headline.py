"""The headline of a case: baseline, end of the stack and peers in the same rounds.

A baseline that is too slow for the shape of its case is timed beside the end of the stack at the smaller ones that it can run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from phasewise.measure.arms import Chosen, Gates, Plans, find_timed, keep_current, refuse
from phasewise.measure.cases import Wanted, forget_files, measure_cases
from phasewise.measure.progress import Progress, to_stderr
from phasewise.measure.sampler import Pair
from phasewise.model.arms import find_arm
from phasewise.model.headline import Cast, find_own
from phasewise.model.ratios import stop_headline
from phasewise.model.refusals import find_refusal
from phasewise.records.base import Scalar, find_case
from phasewise.records.measure import CaseMeasurement, HeadlineMeasurement, Measurement, SmallerMeasurement
from phasewise.records.plan import VariantPlan
from phasewise.records.verdict import Failure, Reason
from phasewise.store import digest

Measured = Mapping[str, Measurement]


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """What all comparisons of a headline are made with."""

    plans: Plans
    gates: Gates
    root: Path
    gpu_memory_bytes: int
    progress: Progress


def measure_headline(
    cast: Cast,
    case: str,
    plans: Plans,
    validations: Gates,
    measured: Measured,
    *,
    root: Path,
    machine: str,
    commit: str,
    gpu_memory_bytes: int = 0,
    progress: Progress | None = None,
) -> HeadlineMeasurement:
    """Time the cast in the same rounds; an arm that may not be timed is left out.

    `plans` and `validations` hold those of the cast, `measured` the stack's own measurements, which tell where it ends.
    """
    gates = keep_current(validations, plans)
    tools = Measuring(
        plans=plans, gates=gates, root=root, gpu_memory_bytes=gpu_memory_bytes, progress=progress or to_stderr()
    )
    end = find_end(cast, case, plans, gates, measured)
    arms = () if end is None else _choose(cast, case, end, plans, gates)
    pairs = _pair(arms)
    own_of = end.variant if end is not None and _has_own(cast, case, end, plans, measured) else ""
    if own_of:
        found = CaseMeasurement(case=case, arms=(), stopped=f"its rounds are those of {own_of}")
    elif end is None or not pairs:
        nothing = Failure(reason=Reason.NO_PARENT, message="there are no two that may be timed in the same rounds")
        found = CaseMeasurement(case=case, arms=(), skipped=nothing)
    else:
        wanted = Wanted(
            name="headline", plan=end, case=end.case(case), arms=arms, pairs=pairs, stop=stop_headline(end.budget),
            # that of one comparison for each
            budget=msgspec.structs.replace(end.budget, seconds=len(pairs) * end.budget.seconds),
        )  # fmt: skip
        found = _measure(wanted, tools)
    first = plans[cast.stack[-1]]
    smaller = () if end is None or end is first else _measure_smaller(case, first, end, tools)
    return HeadlineMeasurement(
        workload=first.workload, run=first.run, case=case, plans={name: digest(plans[name]) for name in cast.members},
        machine=machine, commit=commit, own_of=own_of, measured=forget_files(found), smaller=smaller,
    )  # fmt: skip


def _has_own(cast: Cast, case: str, end: VariantPlan, plans: Plans, measured: Measured) -> bool:
    """Whether the end of the stack has been timed as the headline would be: beside the baseline, which may have been out since."""
    own = find_case(measured.get(end.variant), case)
    there = {arm.arm: arm.variant for arm in own.arms} if own is not None and own.rounds else {}
    return find_own(cast, plans, case) == end.variant and there == {"parent": cast.stack[-1], "variant": end.variant}


def _measure(wanted: Wanted, tools: Measuring) -> CaseMeasurement:
    return measure_cases(
        [wanted], tools.plans, tools.gates, root=tools.root, gpu_memory_bytes=tools.gpu_memory_bytes, progress=tools.progress
    )[wanted.case.case]  # fmt: skip


def _measure_smaller(
    case: str, baseline: VariantPlan, end: VariantPlan, tools: Measuring
) -> tuple[SmallerMeasurement, ...]:
    """Both at each shape of `baseline_at`; none where the baseline's gate is red."""
    if refuse(baseline, case, tools.gates) is not None:
        return ()
    found = []
    for shape in baseline.case(case).baseline_at:
        slow, fast = (_shrink(plan, case, shape) for plan in (baseline, end))
        wanted = Wanted(
            name=f"headline at {shape}", plan=fast, case=fast.case(case), pairs=(("baseline", "variant"),),
            arms=(Chosen(arm="baseline", plan=slow, once_if_slow=True), Chosen(arm="variant", plan=fast)),
            budget=end.budget, stop=stop_headline(end.budget),
        )  # fmt: skip
        found.append(SmallerMeasurement(shape=shape, measured=forget_files(_measure(wanted, tools))))
    return tuple(found)


def _shrink(plan: VariantPlan, case: str, shape: dict[str, Scalar]) -> VariantPlan:
    """The plan with this case at another shape, small enough for all of it to be judged."""
    smaller = msgspec.structs.replace(plan.case(case), shape=shape, baseline_at=(), sample_items=None)
    return msgspec.structs.replace(plan, cases=(smaller,))


def find_end(cast: Cast, case: str, plans: Plans, gates: Gates, measured: Measured) -> VariantPlan | None:
    """The last variant of the stack that may be timed and whose own times are believed; None where there is none."""
    believed = [name for name in cast.stack if _is_believed(find_case(measured.get(name), case))]
    return find_timed(believed, case, plans, gates)


def _choose(cast: Cast, case: str, end: VariantPlan, plans: Plans, gates: Gates) -> tuple[Chosen, ...]:
    """The arms: "baseline", "variant", and the others under their names."""
    baseline = None if end.variant == cast.stack[-1] else find_timed(cast.stack[-1:], case, plans, gates)
    found = [] if baseline is None else [Chosen(arm="baseline", plan=baseline, once_if_slow=True)]
    found.append(Chosen(arm="variant", plan=end))
    names = (*(cast.compared if baseline is not None else ()), *cast.peers)
    others = [plans[name] for name in names if name != end.variant and refuse(plans[name], case, gates) is None]
    return (*found, *(Chosen(arm=plan.variant, plan=plan, once_if_slow=True) for plan in others))


def _pair(arms: tuple[Chosen, ...]) -> tuple[Pair, ...]:
    """Ours against the baseline, and each peer against the end of ours."""
    has_baseline = any(arm.arm == "baseline" for arm in arms)
    pairs = [("baseline", arm.arm) for arm in arms if has_baseline and arm.plan.peer is None and arm.arm != "baseline"]
    return (*pairs, *((arm.arm, "variant") for arm in arms if arm.plan.peer is not None))


def _is_believed(found: CaseMeasurement | None) -> bool:
    """Whether nothing speaks against the variant's own times; its gate is asked elsewhere."""
    if found is None:
        return True
    arm = find_arm(found, "variant")
    return found.skipped is None and (arm is None or arm.failure is None) and find_refusal(found) is None
