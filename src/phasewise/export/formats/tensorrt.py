"""A TensorRT engine inside a torch.export program, written by Torch-TensorRT.

The archive holds the serialised engine as a custom object, so the script loads it with Torch-TensorRT present and can't
refuse pickles; it checks the hash in the manifest first. The engine runs on the GPU model and the TensorRT version that
it was built with.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import torch
from torch.export import ExportedProgram

from phasewise.export.formats.names import Names

IMPORTS = ("torch_tensorrt",)
FILE = "model.trt.pt2"


def missing() -> str:
    """A GPU and the package torch_tensorrt."""
    if not torch.cuda.is_available():
        return "needs an NVIDIA GPU"
    return "" if importlib.util.find_spec("torch_tensorrt") else "needs Torch-TensorRT (pip install torch-tensorrt)"


def write(exported: ExportedProgram, names: Names, folder: Path) -> None:
    """Build engines for the parts that TensorRT supports; the rest stays with torch."""
    torch_tensorrt = importlib.import_module("torch_tensorrt")
    assert exported.example_inputs is not None, "capture keeps the example inputs"
    inputs = list(exported.example_inputs[0])
    compiled = torch_tensorrt.dynamo.compile(exported, inputs=inputs)
    torch_tensorrt.save(compiled, str(folder / FILE), output_format="exported_program", inputs=inputs)
