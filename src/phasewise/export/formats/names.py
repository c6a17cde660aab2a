"""What a form is told about the tensors of an export."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """Names and dtypes of an export's tensors, in order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    # "float32", "int64", ...: of inputs, then of outputs
    dtypes: tuple[str, ...]
