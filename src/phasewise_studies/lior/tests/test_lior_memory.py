"""The memory check finds a leak at the rate it promises, whether it watches 1000 replayed windows or 200 eager ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from phasewise import CheckContext, Checked
from phasewise_studies.lior import checks
from phasewise_studies.lior.program import build
from phasewise_studies.lior.switches import Switches
from phasewise_studies.lior.tests.lior_runs import make_shape


def watch(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], bytes_a_window: int) -> tuple[Checked, int]:
    """The check with a device that only says it is a GPU, whose allocated bytes grow with each window; and the windows it ran."""
    ran: list[int] = []

    def build_here(switches: Switches, inputs: Any, case: str, shape: Any, device: Any) -> Any:
        made = build(Switches(), inputs, case, shape, torch.device("cpu"))
        # one window serves for all
        raw = made.step(made.place(inputs))
        return SimpleNamespace(
            step=lambda placed: ran.append(shape.steps) or raw, place=made.place, outputs=made.outputs, state=made.state
        )

    monkeypatch.setattr(checks.lior, "build", build_here)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 10_000 + bytes_a_window * len(ran))
    context = CheckContext(
        build=None, reference=None, run=None, inputs=None, switches=Switches(**settings), case="feedback-32",
        shape=make_shape(feedback=True, steps=12), device=SimpleNamespace(type="cuda"), rtol=1e-4, atol=2e-5,
    )  # fmt: skip
    found = checks.memory_stays_flat(context)
    return found, sum(ran)


@pytest.mark.parametrize(("settings", "steps"), [({}, 200 * 8), ({"engine": "lockstep"}, 1000 * 12)])
def test_a_leak_is_found_at_the_same_rate(monkeypatch, settings: dict[str, Any], steps: int) -> None:
    flat, ran = watch(monkeypatch, settings, 0)
    assert ran == steps
    assert flat.passed and flat.numbers["memory growth"].value == 0
    # 1 MiB in 1000 windows
    assert watch(monkeypatch, settings, 1 << 10)[0].passed
    leaking = watch(monkeypatch, settings, (1 << 10) + 512)[0]
    assert not leaking.passed and leaking.numbers["memory growth"].value == 1000 * ((1 << 10) + 512)
