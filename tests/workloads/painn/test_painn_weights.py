"""Checkpoints: names, and descriptions that cannot be read."""

from __future__ import annotations

from pathlib import Path

import torch

from phasewise.workloads.painn.weights import load_model, save_model
from workloads.painn.painn_molecules import SMALL, small_weights


def test_dots_are_part_of_a_checkpoints_name(tmp_path: Path) -> None:
    first, second = small_weights(), {**small_weights(), "atomref": torch.ones(100, dtype=torch.float64)}
    save_model(tmp_path / "painn-v1.0", first, SMALL)
    save_model(tmp_path / "painn-v1.1", second, SMALL)
    assert (tmp_path / "painn-v1.0.json").exists()
    assert torch.equal(load_model(tmp_path / "painn-v1.0")[0]["atomref"], first["atomref"])
    assert torch.equal(load_model(tmp_path / "painn-v1.1")[0]["atomref"], second["atomref"])


def test_a_checkpoint_may_be_named_with_an_ending(tmp_path: Path) -> None:
    save_model(tmp_path / "m.safetensors", small_weights(), SMALL)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m.json", "m.safetensors"]
    for name in ("m", "m.json", "m.safetensors"):
        assert load_model(tmp_path / name)[1] == SMALL
