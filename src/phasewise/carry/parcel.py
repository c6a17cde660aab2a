"""A folder that travels: its files with their hashes, archives in pieces, and what is refused of them.

It imports nothing but the standard library: a copy of it goes along, and runs where nothing is installed yet.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from phasewise.records.errors import UserError

MANIFEST = "manifest.json"
FORMAT = 1
# of one piece of an archive; many ways to send a file end at 16 MB
PIECE_BYTES = 15_000_000
READ_BYTES = 1 << 20
# of gzip: time on the box is dear
LEVEL = 3


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path, paths: Iterable[Path], facts: Mapping[str, Any]) -> None:
    """Write `facts` and name, size and hash of files below `folder`; last of all, so that it stands for a whole folder."""
    files = [
        {"path": path.relative_to(folder).as_posix(), "size": path.stat().st_size, "sha256": hash_file(path)}
        for path in paths
    ]
    text = json.dumps({"format": FORMAT, **facts, "files": files}, indent=1)
    (folder / MANIFEST).write_text(text + "\n")


def read_manifest(folder: Path) -> dict[str, Any]:
    """What the manifest tells, once every file that it names is there as it names it.

    Raises:
        UserError: there is none, or a file is missing, damaged, a link or outside.
    """
    path = folder / MANIFEST
    try:
        told: dict[str, Any] = json.loads(path.read_text())
        files = {entry["path"]: (entry["size"], entry["sha256"]) for entry in told["files"]}
        if told["format"] != FORMAT:
            raise UserError(
                f"{path}: format {told['format']!r} is unknown; use the version of phasewise that packed it"
            )
    except OSError as error:
        raise UserError(f"{path}: can't be read ({error.strerror}); name the folder that was packed") from error
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: damaged, it is no manifest; carry the folder over again") from error
    for name, (size, sha256) in files.items():
        check_name(name, str(path))
        file = folder / name
        if file.is_symlink():
            raise UserError(f"{file}: a link, and a file is wanted; carry the folder over again")
        if not file.is_file():
            raise UserError(f"{file}: missing, the manifest names it; carry the folder over again")
        if file.stat().st_size != size or hash_file(file) != sha256:
            raise UserError(f"{file}: damaged, it is not what the manifest has a hash of; carry the folder over again")
    return told


def check_name(name: str, place: str) -> None:
    """Raises UserError unless `name` stays below the folder that it is put in."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise UserError(f"{place}: names {name!r}, which climbs out of the folder; nothing was taken from it")


def write_archive(
    files: Iterable[tuple[str, Path]], target: Path, *, room: int | None = None, age: int | None = None
) -> list[str]:
    """Write the files, by name, as one gzipped tar, and return the names of those for which `room` bytes were too few.

    Each is compressed by itself, so that one that does not fit can be left out. `age`: the time of all of them, where it
    must not tell one from another.
    """
    named = list(files)
    left_out, used = [], 0
    # compressing lets other threads run
    with target.open("wb") as archive, ThreadPoolExecutor() as pool:
        for (name, _), packed in zip(named, pool.map(lambda one: _pack_member(*one, age=age), named), strict=True):
            if room is not None and used + len(packed) > room:
                left_out.append(name)
                continue
            used += archive.write(packed)
        archive.write(gzip.compress(bytes(2 * tarfile.BLOCKSIZE), mtime=0))
    return left_out


def _pack_member(name: str, path: Path, *, age: int | None) -> bytes:
    entry, content = tarfile.TarInfo(name), path.read_bytes()
    entry.size, entry.mtime, entry.mode = len(content), int(path.stat().st_mtime) if age is None else age, 0o644
    padding = bytes(-len(content) % tarfile.BLOCKSIZE)
    return gzip.compress(entry.tobuf(tarfile.PAX_FORMAT) + content + padding, LEVEL, mtime=0)


def split_file(path: Path) -> list[Path]:
    """Replace `path` by pieces of it, named path.00, path.01, ..."""
    pieces: list[Path] = []
    with path.open("rb") as file:
        while part := file.read(PIECE_BYTES):
            pieces.append(path.with_name(f"{path.name}.{len(pieces):02}"))
            pieces[-1].write_bytes(part)
    path.unlink()
    return pieces


def join_pieces(pieces: Sequence[Path], target: BinaryIO) -> None:
    """Write the pieces one after the other."""
    for piece in pieces:
        with piece.open("rb") as file:
            while part := file.read(READ_BYTES):
                target.write(part)


def extract(archive: BinaryIO, place: str, into: Path, allowed: Sequence[str]) -> Iterator[str]:
    """Write the plain files of a gzipped tar below `into`, and yield their names, which begin with one of `allowed`.

    Raises:
        UserError: a member is a link, climbs out, or has no business there.
    """
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                check_name(member.name, place)
                if member.isdir():
                    continue
                if not member.isfile():
                    raise UserError(f"{place}: {member.name!r} is a link or a device; nothing was taken from it")
                if not member.name.startswith(tuple(allowed)):
                    raise UserError(f"{place}: {member.name!r} has no business there; nothing was taken from it")
                tar.extract(member, into, filter="data")
                yield member.name
            # a damaged header ends a tar without a word; a checksum stands behind it
            while stream.read(READ_BYTES):
                pass
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise UserError(f"{place}: damaged, it is no whole archive ({error}); carry it over again") from error
