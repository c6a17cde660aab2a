"""Whether a state goes the reference's way: half a step that is missing shows, and rounding does not."""

from __future__ import annotations

import pytest
import torch

from phasewise.judge.progress import state_moves
from phasewise.judge.trajectory import Trajectory
from phasewise.records.validate import Outcome

STEPS = 4


def go(part: float, elements: int) -> Outcome:
    """A state that goes this part of the way."""
    start, way = torch.zeros(elements, dtype=torch.float64), torch.ones(elements, dtype=torch.float64)
    trajectories = [
        Trajectory(outputs=({},) * STEPS, initial={"moment": start}, state={"moment": start + share * way})
        for share in (part, 1.0)
    ]
    return state_moves(*trajectories).outcome


@pytest.mark.parametrize(
    ("part", "elements", "expected"),
    [
        (1.0, 64, Outcome.PASS), (1 - 0.4 / STEPS, 64, Outcome.PASS), (1 - 0.5 / STEPS - 1e-6, 64, Outcome.FAIL),
        (1 + 0.5 / STEPS + 1e-6, 64, Outcome.FAIL), (1 - 0.5 / STEPS - 1e-6, 16, Outcome.FAIL),
        # the moment of one number in bfloat16 strays as its gradients do
        (0.84, 1, Outcome.PASS), (1.2, 1, Outcome.PASS), (0.0, 1, Outcome.FAIL), (0.45, 1, Outcome.FAIL), (2.0, 1, Outcome.FAIL),
    ],
)  # fmt: skip
def test_so_much_of_the_way_may_be_missing(part: float, elements: int, expected: Outcome) -> None:
    assert go(part, elements) is expected
