"""Run the exported model beside this file: python infer.py inputs.npz outputs.npz

Needs NumPy, and torch or, for model.onnx, ONNX Runtime. Names, dtypes and shapes stand in manifest.json; bfloat16 travels as float32.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Refused(SystemExit):
    """What the caller can cure, in one sentence: printed without a traceback, exit code 2."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, once the model's hash agrees with it."""
    if not (folder / "manifest.json").is_file():
        raise Refused(f"{folder}: there is no manifest.json; copy the whole folder of the export")
    manifest = json.loads((folder / "manifest.json").read_text())
    for file in manifest["files"]:
        path = folder / file["path"]
        if not path.is_file():
            raise Refused(f"{path}: the file is missing; copy the whole folder of the export")
        if hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
            raise Refused(f"{path}: the SHA-256 differs from the one in manifest.json; copy the export again")
    return manifest


def read_inputs(path: Path, manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, once names, dtypes and shapes are those of the manifest."""
    if not path.is_file():
        raise Refused(f"{path}: there is no such file; give an .npz with one array for each input of manifest.json")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise Refused(f"{path}: it is no .npz of plain arrays ({error}); write it with numpy.savez") from error
    for item in manifest["inputs"]:
        check_array(path, item, arrays)
    return {item["name"]: arrays[item["name"]] for item in manifest["inputs"]}


def check_array(path: Path, item: dict[str, str], arrays: dict[str, np.ndarray]) -> None:
    """Refuse an array that is missing or not what the model was exported for: some runtimes would read past its end."""
    name = item["name"]
    if name not in arrays:
        raise Refused(f"{path}: there is no array {name!r} among {', '.join(arrays) or 'none'}; add it")
    # NumPy has no bfloat16
    dtype = "float32" if item["dtype"] == "bfloat16" else item["dtype"]
    if str(arrays[name].dtype) != dtype:
        raise Refused(f"{path}: {name!r} is {arrays[name].dtype}, the export takes {dtype}; cast it")
    sizes = item["shape"].split(", ") if item["shape"] else []
    found = arrays[name].shape
    # `*` stands for any size
    if len(found) != len(sizes) or any(size not in ("*", str(have)) for size, have in zip(sizes, found, strict=True)):
        raise Refused(
            f"{path}: {name!r} is {list(found)}, the export takes [{item['shape']}]; export it for that shape"
        )


def load(folder: Path, manifest: dict[str, Any], threads: int | None = None, device: str = "cpu") -> Callable[..., Any]:
    """The model as a function of what `place` gives; returns its outputs in the manifest's order.

    `device`: where ONNX Runtime is to run; what torch runs is on the device that it was exported for.
    """
    if manifest["target"] == "onnx":
        return load_session(folder / manifest["model"], manifest, threads or 0, device)
    import torch

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


def load_session(path: Path, manifest: dict[str, Any], threads: int, device: str) -> Callable[..., Any]:
    """A session of ONNX Runtime as a function of arrays."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise Refused(f"this ONNX Runtime has no {provider}; install onnxruntime-gpu, or use --device cpu")
    session = onnxruntime.InferenceSession(str(path), options, providers=[provider])
    # an input that the model does not use is not fed
    used = {item.name for item in session.get_inputs()}
    names = [item["name"] for item in manifest["inputs"]]

    def run(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        return session.run(None, {name: array for name, array in zip(names, arrays, strict=True) if name in used})

    return run


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
                raise Refused(f"{path}: {item.filename} holds a pickle, which is not loaded; export the model again")


def place(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> list[Any]:
    """Named arrays in the manifest's order and dtypes; for torch as tensors on its device."""
    if manifest["target"] == "onnx":
        return [np.ascontiguousarray(arrays[item["name"]], dtype=item["dtype"]) for item in manifest["inputs"]]
    import torch

    return [
        torch.from_numpy(arrays[item["name"]]).to(device=manifest["device"], dtype=getattr(torch, item["dtype"]))
        for item in manifest["inputs"]
    ]


def read(result: Sequence[Any], manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    """The model's outputs as named arrays."""
    if manifest["target"] != "onnx":
        import torch

        tensors = [tensor.detach().cpu() for tensor in result]
        result = [(tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy() for tensor in tensors]
    return {item["name"]: np.asarray(array) for item, array in zip(manifest["outputs"], result, strict=True)}


def call(model: Callable[..., Any], placed: list[Any]) -> Sequence[Any]:
    """One inference."""
    return model(*placed)


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
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where ONNX Runtime runs model.onnx")
    options = parser.parse_args()
    try:
        infer(options)
    except Refused as error:
        print(f"infer.py: {error}", file=sys.stderr)
        sys.exit(2)


def infer(options: argparse.Namespace) -> None:
    """What `main` says, of parsed options."""
    folder = Path(__file__).resolve().parent
    manifest = read_manifest(folder)
    arrays = read_inputs(options.inputs, manifest)
    if not options.outputs.absolute().parent.is_dir():
        raise Refused(f"{options.outputs}: there is no such folder; make it first")
    model = load(folder, manifest, device=options.device)
    outputs = read(call(model, place(arrays, manifest)), manifest)
    for name, array in outputs.items():
        print(f"{name}: {array.dtype}{list(array.shape)}")
    write_arrays(options.outputs, outputs)


if __name__ == "__main__":
    main()
