"""Exports: what was written, whether it gives the same numbers, and how fast it is."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from phasewise.records.base import Bytes, Record, Seconds, StageRecord
from phasewise.records.validate import TensorError


class ExportStatus(StrEnum):
    """How an export ended."""

    OK = "ok"
    # reloaded, and its numbers are off
    MISMATCH = "mismatch"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    SKIPPED = "skipped"


class ExportFile(Record, frozen=True, kw_only=True):
    """One file of an export."""

    path: str
    sha256: str
    bytes: Bytes


class ExportResult(Record, frozen=True, kw_only=True):
    """One form of one case."""

    case: str
    # "torch-export", "aotinductor", "onnx", "tensorrt"
    format: str = msgspec.field(name="target")
    status: ExportStatus
    reason: str = ""
    files: tuple[ExportFile, ...] = ()
    errors: tuple[TensorError, ...] = ()
    # interleaved rounds: the eager module and the reloaded export, seconds a call
    eager_s: tuple[Seconds, ...] = ()
    export_s: tuple[Seconds, ...] = ()
    seconds: Seconds = 0.0


class Export(StageRecord, frozen=True, kw_only=True):
    """The export stage of one variant."""

    results: tuple[ExportResult, ...]
    # inputs and outputs of the exported module: name -> "float32[4, 8]"
    signature: dict[str, str] = {}
    versions: dict[str, str] = {}
    skipped: str = ""
