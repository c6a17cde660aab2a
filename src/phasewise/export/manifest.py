"""The manifest that lies beside an export: what it is, what it was compared with, and the hashes of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phasewise.records.export import ExportFile
from phasewise.store import write_bytes

FILE = "manifest.json"


def list_files(folder: Path) -> tuple[ExportFile, ...]:
    """All files below `folder` but the manifest, with paths relative to it."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != FILE:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            found.append(ExportFile(path=path.relative_to(folder).as_posix(), sha256=sha256, bytes=path.stat().st_size))
    return tuple(found)


def write_manifest(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write `fields` with the hashes of the folder's files."""
    files = [{"path": file.path, "sha256": file.sha256, "bytes": file.bytes} for file in list_files(folder)]
    content = json.dumps({"schema": 1, **fields, "files": files}, indent=1, sort_keys=True)
    write_bytes(content.encode() + b"\n", folder / FILE)
