"""A baseline that is too slow for the shape of its case: counted and timed at each smaller one that it can run."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from phasewise.measure.sampling import Tools
from phasewise.records.measure import Arm, CaseMeasurement, ScalePoint
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.stats import yuen_interval
from phasewise.workers.arm import ArmProcesses, launch_case
from phasewise.workers.failure import ProcessFailed
from phasewise.workers.warmup import Warmed, settling_steps, warm_up

# rounds of one block at each shape: at least, whatever the budget, and at most. Of five the trimmed mean would keep three, and on a shared
# host three agree by chance
ROUNDS = (12, 100)
# rounds end early once half the width of a step time's interval, on the log scale, is at most this at every shape
PRECISE = 0.1


def measure_scale(plan: VariantPlan, case: PlannedCase, root: Path, tools: Tools) -> CaseMeasurement:
    """Each shape in a process of its own, in rounds of a block each: all see the same machine.

    All blocks do the same number of items: shorter ones would more often fall between two disturbances, and the larger
    shape would look slower an item than it is.
    """
    began = tools.now()
    arm = Arm(arm="variant", variant=plan.variant, switches=case.switches or plan.switches, ranks=plan.ranks)
    points = [ScalePoint(shape=shape, items=0.0, wall_s=()) for shape in case.baseline_at]
    sessions = [ArmProcesses(launch_case(plan, case.case, root, shape=shape)) for shape in case.baseline_at]
    try:
        warmed = []
        for number, session in enumerate(sessions):
            tools.progress.update(f"{case.case}: baseline at {points[number].shape}")
            items = session.open()["items"]
            operators, elements = session.count()
            points[number] = msgspec.structs.replace(
                points[number], items=items, operators=operators, elements=elements
            )
            warmed.append(warm_up(session, plan.budget, device=plan.device, cold=case.cache == "cold", now=tools.now))
        steps = choose_steps(warmed, [point.items for point in points])
        a_round = sum(each.step_s * count for each, count in zip(warmed, steps, strict=True))
        for taken in range(min(max(int(plan.budget.seconds / a_round), ROUNDS[0]), ROUNDS[1])):
            if taken >= ROUNDS[0] and is_precise(points):
                break
            for number, (session, count) in enumerate(zip(sessions, steps, strict=True)):
                wall_s = session.block(count, settling_steps(count))["wall_s"] / count
                points[number] = msgspec.structs.replace(points[number], wall_s=(*points[number].wall_s, wall_s))
        loaded = {name for session in sessions for name in session.files()}
        arm = msgspec.structs.replace(arm, loaded=tuple(sorted(loaded)))
    except ProcessFailed as died:
        arm = msgspec.structs.replace(arm, failure=died.failure)
    finally:
        for session in sessions:
            session.close()
    return CaseMeasurement(
        case=case.case, arms=(arm,), scale=tuple(point for point in points if point.wall_s), stopped="scale",
        seconds=tools.now() - began,
    )  # fmt: skip


def is_precise(points: list[ScalePoint]) -> bool:
    """Whether the time of a step is known well enough at each shape."""
    ends = [yuen_interval([math.log(wall_s) for wall_s in point.wall_s]) for point in points]
    return all((high - low) / 2 <= PRECISE for low, high in ends)


def choose_steps(warmed: list[Warmed], items: list[float]) -> list[int]:
    """Steps of a block at each shape: of the same number of items, and no fewer than the warm-up found necessary."""
    most = max(each.block_steps * count for each, count in zip(warmed, items, strict=True))
    return [round(most / count) for count in items]
