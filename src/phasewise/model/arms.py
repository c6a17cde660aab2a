"""Arms of a measurement, found and taken out. Imports nothing of numbers: every command reads records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec import structs

from phasewise.records.base import Seconds
from phasewise.records.measure import Arm, Arrival, CaseMeasurement, Inspection, Sample, ShortBlock

A = TypeVar("A", Sample, Inspection, ShortBlock, Arrival)


def take_pair(case: CaseMeasurement, slower: str, faster: str) -> CaseMeasurement | None:
    """What was measured of two arms among others, as "parent" and "variant"; None where one of them was not there."""
    return _take(case, {slower: "parent", faster: "variant"})


def take_headline(case: CaseMeasurement) -> CaseMeasurement | None:
    """What was measured of a variant beside the baseline, as a headline has it."""
    return _take(case, {"parent": "baseline", "variant": "variant"})


def _take(case: CaseMeasurement, names: Mapping[str, str]) -> CaseMeasurement | None:
    """What was measured of these arms, under their new names; None where one of them was not there."""
    arms = tuple(structs.replace(arm, arm=names[arm.arm]) for arm in case.arms if arm.arm in names)
    if len(arms) < len(names):
        return None
    rounds = tuple(structs.replace(taken, samples=_rename(taken.samples, names)) for taken in case.rounds)
    return structs.replace(
        case,
        arms=arms,
        rounds=tuple(taken for taken in rounds if taken.samples),
        inspections=_rename(case.inspections, names),
        short_blocks=_rename(case.short_blocks, names),
        arrivals=_rename(case.arrivals, names),
        # these are of the end of the stack
        refreshes=case.refreshes if "variant" in names else (),
    )


def find_arm(case: CaseMeasurement, name: str) -> Arm | None:
    """The arm of that name."""
    return next((arm for arm in case.arms if arm.arm == name), None)


def find_parent_arm(case: CaseMeasurement) -> Arm | None:
    """What the variant is compared with: its parent, or the baseline where nothing else is there."""
    return next((arm for name in ("parent", "baseline") if (arm := find_arm(case, name)) is not None), None)


def cold_start(arm: Arm | None) -> Seconds | None:
    """Seconds from the start of the build to the end of the first step, where nothing was compiled before."""
    if arm is None or not arm.fresh_caches or not arm.first_step_s:
        return None
    return arm.first_step_s[0] + (arm.build_s[0] if arm.build_s else 0.0)


def _rename(of_arms: tuple[A, ...], names: Mapping[str, str]) -> tuple[A, ...]:
    """What is of these arms, under their new names."""
    return tuple(structs.replace(one, arm=names[one.arm]) for one in of_arms if one.arm in names)
