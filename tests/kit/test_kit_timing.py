"""Calls timed as the GPU sees them."""

from __future__ import annotations

import time

import pytest
import torch

from phasewise.kit.timing import make_timer


@pytest.mark.gpu
def test_a_slow_host_is_not_what_is_timed() -> None:
    left = torch.randn(1024, 1024, device="cuda")

    def multiply() -> None:
        left @ left

    def dawdle() -> None:
        time.sleep(1e-3)
        left @ left

    prompt, late = make_timer(multiply), make_timer(dawdle)
    assert min(late() for _ in range(5)) < 5e-4
    assert min(late() for _ in range(5)) < 2 * min(prompt() for _ in range(5))


@pytest.mark.gpu
def test_a_call_that_waits_for_the_device_is_refused() -> None:
    left = torch.ones(1, device="cuda")
    with pytest.raises(RuntimeError):
        make_timer(lambda: left.item())
