"""What workers say about exports. Imports no torch."""

from __future__ import annotations

import msgspec

from phasewise.records.export import ExportStatus
from phasewise.records.validate import TensorError


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The eager module of a case."""

    # each tensor's name, dtype and shape ("*, 8"), in order
    inputs: tuple[dict[str, str], ...]
    outputs: tuple[dict[str, str], ...]
    # "cpu", "cuda"
    device: str
    matmul_precision: str
    threads: int
    # of the packages that write and run exports
    versions: dict[str, str]
    # whose inputs and outputs lie in the folder
    batches: int


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A case that was built."""

    # None: its program has no module
    module: About | None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """An export that lies in its folder, or why there is none."""

    status: ExportStatus = ExportStatus.OK
    reason: str = ""
    # name of its file
    model: str = ""
    # those that PyTorch does not bring
    operators: tuple[str, ...] = ()
    # modules that are imported before it is loaded
    imports: tuple[str, ...] = ()


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A reloaded export beside the eager module: one entry a batch and output."""

    errors: tuple[TensorError, ...]
