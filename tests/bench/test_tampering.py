"""What a program has left on, or replaced, in torch is noticed; what an honest one leaves is not."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from phasewise.bench.tampering import find_tampering


class Watching(TorchFunctionMode):
    """Sees every call."""


class Answering(TorchDispatchMode):
    """Sees every operator."""


def test_a_program_that_leaves_torch_as_it_was_is_left_alone() -> None:
    assert find_tampering() == ""
    with torch.device("cpu"), torch.no_grad(), torch.autocast("cpu"):
        assert find_tampering() == ""


@pytest.mark.parametrize("mode", [Watching, Answering])
def test_a_mode_that_is_left_on_is_named(mode: type) -> None:
    with mode():
        assert f"has left a mode of torch on, {mode.__name__}" in find_tampering()


def test_a_function_that_is_replaced_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "copy_", lambda one, other: one, raising=False)
    assert "has replaced torch.Tensor.copy_" in find_tampering()
    monkeypatch.undo()
    monkeypatch.setattr(torch, "empty", torch.zeros)
    assert "has replaced torch.empty" in find_tampering()
