"""The cap on device memory, against a GPU that is made up here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from phasewise.bench.memory import limit_memory


@pytest.mark.parametrize(("device", "number"), [("cuda", None), ("cuda:1", 1)])
def test_a_device_is_capped_by_its_number_or_as_the_current_one(device, number, monkeypatch):
    set_to = []
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(total_memory=1000))
    monkeypatch.setattr(
        "torch.cuda.set_per_process_memory_fraction", lambda fraction, device: set_to.append((fraction, device))
    )
    limit_memory(250, torch.device(device))
    assert set_to == [(0.25, number)]
