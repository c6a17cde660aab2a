"""Launches found by trying: which cut of a row is fastest on this GPU, kept in a file that names the GPU and the kernels.

The file is JSON in the folder PHASEWISE_BK_CACHE, by default ~/.cache/phasewise: {"device": ..., "kernels": <hash>, "launches":
{"forward 4096x2048 ...": [chunk, view, span]}}. A file of another GPU model or of other kernels is not read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import torch

from phasewise import kit
from phasewise.kit.tuning import choose_fastest, time_choices
from phasewise_studies.bk_core.kernels.launch import Launch, choose_launch

# each candidate is timed so often, in turns; the smallest time counts, since whatever else is at work only adds to it
ROUNDS = 20
# others may be at work on the GPU while launches are tried, so one that is no clear gain over the usual is not taken
CLEAR_GAIN = 0.97
HERE, KIT = Path(__file__).parent, Path(kit.__file__).parent
KERNELS = (HERE / "forward.py", HERE / "adjoint.py", HERE / "warp.py", HERE / "moebius.py", KIT / "fast_math.py")


def tune_launch(
    run: Callable[[Launch], Any], key: str, batch: int, length: int, *, eta: float, gradient: bool = False
) -> Launch:
    """The fastest launch of `run` on the current GPU, from the file or by trying `list_candidates`."""
    device = torch.cuda.get_device_name()
    file = _file_of(device)
    known = _read(file, device)
    key = f"{key} {batch}x{length}"
    if key in known:
        return Launch(*known[key])
    usual, *others = list_candidates(batch, length, eta=eta, gradient=gradient)
    best = usual
    if others:
        calls = {launch: partial(run, launch) for launch in (usual, *others)}
        best = choose_fastest(time_choices(calls, ROUNDS, summary=min), usual, CLEAR_GAIN)
    _write(file, device, known | {key: list(astuple(best))})
    return best


def list_candidates(batch: int, length: int, *, eta: float, gradient: bool = False) -> list[Launch]:
    """Launches worth trying, the usual choice first."""
    usual = choose_launch(batch, length, eta=eta, gradient=gradient)
    found = [usual]
    # a compilation each: the chunk lengths that fit in registers, whole rows or parts of them
    for chunk in (4, 8) if gradient else (8, 16):
        for steps in (None, 2, length):
            launch = choose_launch(batch, length, eta=eta, chunk=chunk, steps=steps)
            # a warp for each few chunks of a large case would only try the patience
            if launch not in found and batch * launch.count_parts(length) <= 1 << 16:
                found.append(launch)
    return found


def _file_of(device: str) -> Path:
    folder = Path(os.environ.get("PHASEWISE_BK_CACHE") or Path.home() / ".cache" / "phasewise")
    return folder / f"bk_core-{''.join(c if c.isalnum() else '-' for c in device)}.json"


def _hash_kernels() -> str:
    digest = hashlib.sha256()
    for file in KERNELS:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _read(file: Path, device: str) -> dict[str, list[int]]:
    try:
        held = json.loads(file.read_text())
    except (OSError, json.JSONDecodeError):
        return {}
    if held.get("device") != device or held.get("kernels") != _hash_kernels():
        return {}
    launches: dict[str, list[int]] = held.get("launches", {})
    return launches


def _write(file: Path, device: str, launches: dict[str, list[int]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"device": device, "kernels": _hash_kernels(), "launches": launches}, indent=1)
    # renamed in one go: two workers may write at once
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(file)
