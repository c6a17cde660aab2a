"""What prepare made: artifacts, and the work that one step of each case declares."""

from __future__ import annotations

from phasewise.records.base import SCHEMA, Bytes, Record, Seconds
from phasewise.records.verdict import Failure


class Artifact(Record, frozen=True, kw_only=True):
    """A file that was prepared once and that later stages read."""

    path: str
    sha256: str
    bytes: Bytes


class CaseWork(Record, frozen=True, kw_only=True):
    """What one step has to do at least, as its author counts it."""

    case: str
    items: float
    # floating-point operations
    flops: float
    # bytes that must cross device memory, each input read once and each output written once
    bytes: float
    working_set_bytes: float
    # which measured matrix rate bounds the flops: a key of `Peaks.matmul_flops_per_s`
    dtype: str = "float32"
    # times that all of the step has to be there before it can go on
    barriers: int = 0
    item: str = "items"
    # of one way to do it: another may need fewer
    counted: bool = False


class Prepared(Record, frozen=True, kw_only=True):
    """The prepare stage of one workload on one machine."""

    schema: int = SCHEMA
    workload: str
    run: str
    folder: str
    artifacts: tuple[Artifact, ...] = ()
    work: tuple[CaseWork, ...] = ()
    seconds: Seconds = 0.0
    failure: Failure | None = None
    # files that its process loaded of the workload and the kit, with a hash of each
    loaded: dict[str, str] | None = None
