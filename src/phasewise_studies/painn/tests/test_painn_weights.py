"""Checkpoints: names, and descriptions that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from phasewise.records.errors import UserError
from phasewise_studies.painn.tests.painn_molecules import SMALL, small_weights
from phasewise_studies.painn.weights import load_elements, load_model, save_model


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


SIZES = {"features": 16, "layers": 3, "radial": 20, "cutoff": 5.0, "basis": "gaussian", "epsilon": 1e-8}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"teacher": "none"}, "sizes: missing; exactly features"),
        ({"sizes": {**SIZES, "heads": 4}}, "heads, layers"),
        ({"sizes": {name: SIZES[name] for name in ("features", "layers")}}, "sizes: features, layers; exactly"),
        ({"sizes": {**SIZES, "basis": "fourier"}}, 'basis is \'fourier\'; "gaussian" or "bessel" is allowed'),
        ({"sizes": {**SIZES, "basis": ["gaussian"]}}, "basis is"),
        ({"sizes": {**SIZES, "cutoff": 0}}, "cutoff is 0; a number of Angstrom"),
        ({"sizes": {**SIZES, "cutoff": "5"}}, "cutoff is '5'"),
        ({"sizes": {**SIZES, "features": 15}}, "features is 15"),
        ({"sizes": {**SIZES, "layers": True}}, "layers is True"),
        ([1], "it holds .1.; an object"),
    ],
)
def test_a_description_that_no_model_has_is_refused(tmp_path: Path, description: Any, message: str) -> None:
    save_model(tmp_path / "m", small_weights(), SMALL)
    (tmp_path / "m.json").write_text(json.dumps(description))
    with pytest.raises(UserError, match=message):
        load_model(tmp_path / "m")


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path / "m", small_weights(), SMALL)
    (tmp_path / "m.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="no safetensors"):
        load_model(tmp_path / "m")
    (tmp_path / "m.json").write_text('{"sizes": ')
    with pytest.raises(UserError, match="no JSON"):
        load_model(tmp_path / "m")


def test_a_checkpoint_keeps_the_elements_that_it_was_trained_on(tmp_path: Path) -> None:
    save_model(tmp_path / "m", small_weights(), SMALL, elements={8, 1})
    assert load_elements(tmp_path / "m") == (1, 8)
    save_model(tmp_path / "m", small_weights(), SMALL)
    assert load_elements(tmp_path / "m") == tuple(range(1, 100))
    for elements in ([], [0], ["H"], 8):
        (tmp_path / "m.json").write_text(json.dumps({"sizes": SIZES, "elements": elements}))
        with pytest.raises(UserError, match="elements is"):
            load_elements(tmp_path / "m")
