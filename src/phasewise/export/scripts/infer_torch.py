"""Run the exported model beside this file: python infer.py inputs.npz outputs.npz

Needs torch and NumPy, nothing else. Names, dtypes and shapes stand in manifest.json; bfloat16 travels as float32.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, once the model's hash agrees with it."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for file in manifest["files"]:
        path = folder / file["path"]
        if hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
            raise SystemExit(f"{path}: the SHA-256 differs from the one in manifest.json; copy the export again")
    return manifest


def load(folder: Path, manifest: dict[str, Any], threads: int | None = None) -> Callable[..., Any]:
    """The model as a function of tensors in the manifest's order; returns a tuple of tensors."""
    if threads:
        torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(manifest["matmul_precision"])
    # modules that register the custom operators of this model
    for module in manifest["imports"]:
        importlib.import_module(module)
    path = folder / manifest["model"]
    if manifest["target"] == "aotinductor":
        return torch._inductor.aoti_load_package(str(path))
    if manifest["target"] == "torch-export":
        refuse_pickle(path)
    return torch.export.load(path).module()


def refuse_pickle(path: Path) -> None:
    """A .pt2 archive can hold pickles of example inputs and of unusual weights; loading those could run any code."""
    with zipfile.ZipFile(path) as archive:
        for item in archive.infolist():
            samples = "/sample_inputs/" in item.filename and item.file_size > 0
            configuration = item.filename.endswith("_config.json") and archive.read(item)
            entries = json.loads(configuration)["config"].values() if configuration else ()
            # torch.save writes a zip archive, which begins so
            with archive.open(item) as file:
                saved = file.read(4) == b"PK\x03\x04"
            if samples or saved or any(entry.get("use_pickle", False) for entry in entries):
                raise SystemExit(f"{path}: {item.filename} holds a pickle, which is not loaded; export the model again")


def place(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> list[torch.Tensor]:
    """Named arrays -> tensors in the manifest's order, dtype and device."""
    return [
        torch.from_numpy(arrays[item["name"]]).to(device=manifest["device"], dtype=getattr(torch, item["dtype"]))
        for item in manifest["inputs"]
    ]


def read(result: Sequence[torch.Tensor], manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    """The model's tensors -> named arrays."""
    tensors = (tensor.detach().cpu() for tensor in result)
    arrays = [(tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy() for tensor in tensors]
    return {item["name"]: array for item, array in zip(manifest["outputs"], arrays, strict=True)}


def call(model: Callable[..., Any], tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    """One inference."""
    return model(*tensors)


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
    options = parser.parse_args()
    folder = Path(__file__).resolve().parent
    manifest = read_manifest(folder)
    with np.load(options.inputs, allow_pickle=False) as file:
        arrays = {item["name"]: file[item["name"]] for item in manifest["inputs"]}
    model = load(folder, manifest)
    outputs = read(call(model, place(arrays, manifest)), manifest)
    for name, array in outputs.items():
        print(f"{name}: {array.dtype}{list(array.shape)}")
    write_arrays(options.outputs, outputs)


if __name__ == "__main__":
    main()
