"""An ONNX model, written by the torch.export based exporter and checked in ONNX Runtime."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch.export import ExportedProgram

from phasewise.export.capture import complex_values, first_line, foreign_operators
from phasewise.export.formats.names import Names
from phasewise.model.workload import Unsupported
from phasewise.tensors import count_bytes

IMPORTS: tuple[str, ...] = ()
FILE = "model.onnx"
# a protobuf message ends at 2 GiB; larger weights go to a file of their own
INLINE_BYTES = 1 << 30


def missing() -> str:
    """The exporter needs onnx and onnxscript, the check onnxruntime."""
    absent = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
    return f"needs {', '.join(absent)} (pip install {' '.join(absent)})" if absent else ""


def write(exported: ExportedProgram, names: Names, folder: Path) -> None:
    """Write and check the model.

    Raises:
        Unsupported: custom operators, complex or bfloat16 tensors at the boundary, or an operator without an ONNX form.
    """
    import onnx

    foreign = foreign_operators(exported)
    if foreign:
        raise Unsupported(f"ONNX has no form for the custom operator {', '.join(foreign)}; export a plain form of it")
    for name, dtype in zip(names.inputs + names.outputs, names.dtypes, strict=True):
        if dtype.startswith("complex"):
            raise Unsupported(
                f"{name!r} is {dtype}, and ONNX Runtime has no complex tensors; pass torch.view_as_real of it"
            )
        if dtype == "bfloat16":
            raise Unsupported(
                f"{name!r} is bfloat16, which NumPy lacks, so ONNX Runtime can't be fed; cast it inside the module"
            )
    size = count_bytes(exported.state_dict.values())
    try:
        torch.onnx.export(
            exported, f=str(folder / FILE), dynamo=True, verbose=False, external_data=size > INLINE_BYTES,
            input_names=list(names.inputs), output_names=list(names.outputs),
        )  # fmt: skip
        onnx.checker.check_model(str(folder / FILE))
    except (torch.onnx.errors.OnnxExporterError, onnx.checker.ValidationError) as error:
        raise Unsupported(_explain(error, exported)) from error


def _explain(error: Exception, exported: ExportedProgram) -> str:
    """One sentence: the innermost cause, and complex values where the graph holds any."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    found = complex_values(exported)
    known = f" (the graph holds complex values, first at {found[0]!r})" if found else ""
    return f"ONNX can't hold the program: {first_line(cause)}{known}"
