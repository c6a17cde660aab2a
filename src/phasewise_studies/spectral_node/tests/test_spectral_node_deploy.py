"""Compressed networks are written with what they err, and only where they hold their gate."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from phasewise.records.errors import UserError
from phasewise_studies.spectral_node import program
from phasewise_studies.spectral_node.phases import workload
from phasewise_studies.spectral_node.product import compress, deploy


def test_networks_that_hold_their_gate_are_written_with_their_error(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    shape = workload.cases["couple"].small
    inputs = program.make_inputs("couple", type(shape)(**dict(shape) | {"wavelengths": 25}), 0)
    whole = {name: inputs[name] for name in compress.NAMES}
    errors = deploy.write_compressed(whole, tmp_path)
    assert errors["int8"] <= compress.GATE
    held = {name for name, error in errors.items() if error <= compress.GATE}
    assert {path.name for path in tmp_path.iterdir()} == held
    for name in held:
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        file = tmp_path / name / deploy.FILE
        assert manifest["error_of_A"] == errors[name] <= manifest["gate"]
        assert manifest["files"] == [
            {"path": deploy.FILE, "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "bytes": file.stat().st_size}
        ]
    stored = safetensors.load_file(tmp_path / "int8" / deploy.FILE)
    assert str(stored[compress.LARGE].dtype) == "torch.int8"
    again = compress.absorbance_error(whole, compress.decode(stored), 25)
    assert again == errors["int8"]


def test_a_file_that_is_no_whole_network_is_refused_by_name(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    with pytest.raises(UserError, match="there is no such file"):
        deploy.read_weights(tmp_path / "absent.safetensors")
    inputs = program.make_inputs("couple", workload.cases["couple"].tiny, 0)
    safetensors.save_file({name: inputs[name] for name in compress.NAMES - {"flow/b1"}}, tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="flow/b1 is missing; a whole network has flow/b1, "):
        deploy.read_weights(tmp_path / "w.safetensors")
