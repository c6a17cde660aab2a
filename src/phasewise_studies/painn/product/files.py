"""Files that the commands write: nothing is overwritten silently, and a run goes on only with what it was begun with."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from phasewise.records.errors import UserError
from phasewise_studies.painn.weights import STUDENT, checkpoint_file, read_description


def refuse_existing(*paths: Path) -> None:
    """Raise UserError for the first path where something lies."""
    for path in paths:
        if path.exists():
            raise UserError(
                f"{path}: it is there already and is not overwritten; name another --out, or move it away first"
            )


def beside(out: Path, ending: str) -> Path:
    """`out/mine` and ".log" -> `out/mine.log`; dots in the name stay."""
    return out.with_name(out.name + ending)


def digest_files(paths: Iterable[Path]) -> str:
    """SHA-256 over the bytes of files in their order, 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def digest_model(model: Path) -> str:
    """The same of a checkpoint's two files; raises UserError where one is missing."""
    read_description(model)
    files = [checkpoint_file(model, ending) for ending in (".json", ".safetensors")]
    for file in files:
        if not file.exists():
            raise UserError(f"{file}: there is no such file; name a checkpoint that save_model wrote, or student")
    return digest_files(files)


def compare_settings(before: Mapping[str, Any], now: Mapping[str, Any], place: Path) -> None:
    """Raise UserError for the first setting that is not what a run at `place` was begun with."""
    for name in sorted(before.keys() | now.keys()):
        was, given = before.get(name), now.get(name)
        if was != given:
            raise UserError(
                f"{place}: it was begun with {name} {was!r}, and {given!r} is given now; give the same, or another --out"
            )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; raises UserError where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no JSON can be read there ({error}); put it back, or name another --out") from error
    if not isinstance(found, dict):
        raise UserError(f"{path}: it holds {str(found)[:40]!r}, no object; put it back, or name another --out")
    return found


def model_path(text: str) -> Path:
    """For argparse: a checkpoint, or `student` for the shipped one."""
    return STUDENT if text == "student" else Path(text)


def whole(text: str) -> int:
    """For argparse: an integer from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is none of the integers from 1 on, which are allowed")
    return int(text)


def amount(text: str) -> float:
    """For argparse: a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no finite number above 0, which is allowed")
    return value
