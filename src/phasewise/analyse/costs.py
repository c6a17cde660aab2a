"""What a run took: the seconds that its records tell of their cases."""

from __future__ import annotations

from phasewise.records.cost import StageCost
from phasewise.records.export import Export
from phasewise.records.measure import ControlMeasurement, HeadlineMeasurement, Measurement
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.run import Run


def tell_costs(run: Run) -> tuple[StageCost, ...]:
    """A stage each, in the order of the flow; one of which no record tells a time is left out.

    Gates and profiles run side by side, so theirs are seconds of processes; of the others they are seconds of the device.
    """
    found = run.find_all(HeadlineMeasurement, run.plan.cases).values()
    # what a variant's own rounds are was measured once
    headlines = [one for one in found if not one.own_of]
    controls = run.find_all(ControlMeasurement, run.plan.cases).values()
    measured = [
        *(one.measured for one in headlines),
        *(smaller.measured for one in headlines for smaller in one.smaller),
    ]
    told = (
        ("validate", False, [case.seconds for one in run.find_all(Validation).values() for case in one.cases]),
        ("profile", False, [case.seconds for one in run.find_all(Profile).values() for case in one.cases]),
        ("measure", True, [case.seconds for one in run.find_all(Measurement).values() for case in one.cases]),
        ("headline", True, [one.seconds for one in measured]),
        ("control", True, [one.measured.seconds for one in controls]),
        ("export", True, [result.seconds for one in run.find_all(Export).values() for result in one.results]),
    )
    return tuple(
        StageCost(stage=stage, cases=sum(one > 0 for one in seconds), seconds=sum(seconds), alone=alone)
        for stage, alone, seconds in told
        if any(seconds)
    )
