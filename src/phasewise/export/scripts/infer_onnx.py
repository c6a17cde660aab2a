"""Run the exported model beside this file: python infer.py inputs.npz outputs.npz

Needs onnxruntime and NumPy, nothing else. Names, dtypes and shapes stand in manifest.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, once the model's hash agrees with it."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for file in manifest["files"]:
        path = folder / file["path"]
        if hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
            raise SystemExit(f"{path}: the SHA-256 differs from the one in manifest.json; copy the export again")
    return manifest


def load(
    folder: Path, manifest: dict[str, Any], threads: int | None = None, device: str = "cpu"
) -> onnxruntime.InferenceSession:
    """The model as a session of ONNX Runtime on the CPU, or on the GPU where `device` is "cuda"."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise SystemExit(f"this ONNX Runtime has no {provider}; install onnxruntime-gpu, or use --device cpu")
    return onnxruntime.InferenceSession(str(folder / manifest["model"]), options, providers=[provider])


def place(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    """Named arrays in the manifest's dtypes."""
    return {
        item["name"]: np.ascontiguousarray(arrays[item["name"]], dtype=item["dtype"]) for item in manifest["inputs"]
    }


def read(result: Sequence[np.ndarray], manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    """The model's arrays by name."""
    return {item["name"]: np.asarray(array) for item, array in zip(manifest["outputs"], result, strict=True)}


def call(model: onnxruntime.InferenceSession, arrays: dict[str, np.ndarray]) -> Sequence[np.ndarray]:
    """One inference; an input that the model does not use is not fed."""
    used = [item.name for item in model.get_inputs()]
    return model.run(None, {name: arrays[name] for name in used})


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """An .npz file without pickles. numpy.savez takes names as keywords, and some (`file`) for its own."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def main() -> None:
    """Read the inputs, run the model once, print the shapes of its outputs and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("inputs", type=Path, help=".npz with one array for each input of manifest.json")
    parser.add_argument("outputs", type=Path, help=".npz to write")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    folder = Path(__file__).resolve().parent
    manifest = read_manifest(folder)
    with np.load(options.inputs, allow_pickle=False) as file:
        arrays = {item["name"]: file[item["name"]] for item in manifest["inputs"]}
    model = load(folder, manifest, device=options.device)
    outputs = read(call(model, place(arrays, manifest)), manifest)
    for name, array in outputs.items():
        print(f"{name}: {array.dtype}{list(array.shape)}")
    write_arrays(options.outputs, outputs)


if __name__ == "__main__":
    main()
