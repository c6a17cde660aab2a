"""Records to and from JSON: schema checked before anything else, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from phasewise.records.base import SCHEMA, Record
from phasewise.records.errors import RecordError

R = TypeVar("R", bound=Record)


def encode(record: Record) -> bytes:
    """The record as indented JSON with sorted keys, so that equal records are equal bytes."""
    # read back first: an int in a float's place becomes a float, and a NaN, which JSON can't hold, is refused here
    plain = msgspec.json.decode(msgspec.json.encode(record), type=type(record))
    compact = msgspec.json.encode(plain, order="sorted")
    return msgspec.json.format(compact, indent=1) + b"\n"


def digest(record: Record) -> str:
    """SHA-256 of the encoded record, 16 hexadecimal digits."""
    return hashlib.sha256(encode(record)).hexdigest()[:16]


def digest_of(path: Path) -> str:
    """`digest` of the record that was written to `path`, as it was written; "" where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


def write(record: Record, path: Path) -> None:
    """Write `record` beside `path` and rename it there; an existing file is replaced at once."""
    write_bytes(encode(record), path)


def write_if_changed(record: Record, path: Path) -> bool:
    """Write only if the content differs; the file keeps its age otherwise. True if it was written."""
    content = encode(record)
    if path.is_file() and path.read_bytes() == content:
        return False
    write_bytes(content, path)
    return True


def write_bytes(content: bytes, path: Path) -> None:
    """Write `content` to a temporary file in the same folder, flush it to disk, then rename it to `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        # readable for whom the umask says, as any other file
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written ({error.strerror}); free space or make it writable") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        name.replace(path)
    except OSError as error:
        name.unlink(missing_ok=True)
        raise RecordError(f"{path}: cannot be written ({error.strerror}); free space or make it writable") from error


def read(path: Path, kind: type[R]) -> R:
    """Read a record of `kind`.

    Raises:
        RecordError: the file is absent, not JSON, of another schema, or does not fit `kind`.
    """
    return decode(read_content(path), kind, str(path))


def read_content(path: Path) -> bytes:
    """What the plain file at `path` holds; raises RecordError where there is none, or it can't be read."""
    try:
        # a pipe would be waited for, and a device read without end
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordError(f"{path}: no plain file; move away what stands there and run the stage that writes it")
        return path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"{path}: no record can be read there ({error.strerror}); run the stage that writes it"
        ) from error


def decode(content: bytes, kind: type[R], place: str) -> R:
    """Decode `content` found at `place`; raises RecordError as `read` does."""
    try:
        # other than the standard library's, it takes no NaN, which JSON does not have
        plain: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RecordError(f"{place}: not a whole JSON record ({error}); delete it and run the stage again") from error
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema != SCHEMA:
        raise RecordError(
            f"{place}: schema {schema!r} is unknown, this version reads {SCHEMA}; "
            "use the version of phasewise that wrote it, or delete the file and run the stage again"
        )
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise RecordError(f"{place}: not a {kind.__name__} ({error}); delete it and run the stage again") from error


def read_if_there(path: Path, kind: type[R]) -> R | None:
    """Like `read`, and None where there is no file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        # what there is to say of it is said below
        pass
    return read(path, kind)
