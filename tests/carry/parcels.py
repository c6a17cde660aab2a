"""What a box could have sent, made by hand."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phasewise.carry.parcel import hash_file, write_manifest
from phasewise.records.machine import Machine
from phasewise.store import encode

RUN = "profiles/records/sums/full-h100"
IDENTITY = "profiles/machines/h100.identity.json"
H100 = Machine(device="h100", kind="cuda", name="NVIDIA H100 80GB HBM3", gpus=1, driver="580.1", cores=16)


def git(folder: Path, *words: str) -> str:
    """Git in that folder, as somebody."""
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path) -> str:
    """A repository with one commit, whose name is returned."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "code.py").write_text("x = 1\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return git(folder, "rev-parse", "--short=12", "HEAD")


def records_of(machine: Machine = H100, made_on: str = "") -> dict[str, bytes]:
    """The least that a run of that machine comes with."""
    run = f"profiles/records/sums/full-{machine.device}"
    return {
        f"{run}/plan.json": b"{}",
        f"{run}/00-baseline/measure.json": json.dumps({"machine": made_on or machine.identity}).encode(),
        f"profiles/machines/{machine.device}.identity.json": encode(machine),
    }


def send(
    folder: Path, files: Mapping[str, bytes], *, commit: str, links: Mapping[str, str] | None = None, **facts: Any
) -> Path:
    """A folder that came back, with one archive of `files` and of symbolic `links`."""
    folder.mkdir()
    piece = folder / "records.tgz.00"
    with tarfile.open(piece, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    write_manifest(folder, [piece], {"commit": commit, "left_out": [], **facts})
    return folder


def resign(folder: Path, **changes: Any) -> None:
    """Change what the manifest says, and have its hashes right."""
    path = folder / "manifest.json"
    told = json.loads(path.read_text()) | changes
    for one in told["files"]:
        if (folder / one["path"]).is_file():
            one |= {"size": (folder / one["path"]).stat().st_size, "sha256": hash_file(folder / one["path"])}
    path.write_text(json.dumps(told))
