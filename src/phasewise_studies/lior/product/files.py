"""Files of tensors, read and written without a pickle that could run code, and arguments whose mistakes are one sentence."""

from __future__ import annotations

import argparse
import hashlib
import logging
import pickle
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import numpy
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from phasewise.records.errors import UserError

KINDS = (".safetensors", ".npz", ".pt", ".pth")


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are UserErrors, so that they are one sentence like all others."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; --help lists what there is.")


def log_to_stdout() -> None:
    """The study's lines on stdout; of other libraries only warnings."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    logging.getLogger("phasewise.lior").setLevel(logging.INFO)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Tensors by name, on the CPU, of a .safetensors, .npz, .pt or .pth file.

    :raises UserError: the file is absent, of another kind, broken, or holds anything but named tensors
    """
    if path.suffix not in KINDS:
        raise UserError(f"{path}: files of kind {path.suffix or 'none'} are not read; give one of {', '.join(KINDS)}.")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file.")
    try:
        found = _read(path)
    except (SafetensorError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or ["empty"])[0][:120]
        raise UserError(f"{path}: not a sound {path.suffix} file of tensors ({reason}); write it again.") from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{path}: it has to hold a dictionary of tensors by name, and nothing else.")
    return found


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_file(path)
    if path.suffix == ".npz":
        with numpy.load(path, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    found: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return found


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """A .safetensors file, whole or not at all: a process that dies while it writes leaves the old one."""
    if path.suffix != ".safetensors":
        raise UserError(f"{path}: tensors are written as .safetensors; give the file that ending.")
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".writing")
    save_file(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, written, dict(notes or {})
    )
    written.replace(path)


def read_notes(path: Path) -> dict[str, str]:
    """What `write_tensors` noted beside the tensors."""
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_tensor(path: Path, name: str, tensor: Tensor, shape: tuple[int | str, ...]) -> Tensor:
    """The tensor in float32, if it has this shape (a word stands for any length) and only finite numbers.

    :raises UserError: it has not
    """
    wanted = f"({', '.join(map(str, shape))})"
    lengths = tuple(tensor.shape)
    fits = len(lengths) == len(shape) and all(
        isinstance(length, str) or length == found for length, found in zip(shape, lengths, strict=True)
    )
    if not fits:
        raise UserError(f"{path}: {name!r} has shape {lengths}; it has to be {wanted}.")
    if tensor.is_complex():
        raise UserError(f"{path}: {name!r} is complex; give real numbers.")
    tensor = tensor.to(torch.float32)
    bad = (~torch.isfinite(tensor)).nonzero()
    if len(bad):
        raise UserError(f"{path}: {name!r} is not finite at {tuple(bad[0].tolist())}; leave that row out or mend it.")
    return tensor
