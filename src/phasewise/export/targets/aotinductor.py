"""An AOTInductor package: the program compiled ahead of time to a library, with its weights, in one .pt2 archive.

It runs on the kind of device and the processor features that it was compiled for. Loading it executes native code.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import torch
from torch.export import ExportedProgram

from phasewise.export.targets.names import Names

IMPORTS: tuple[str, ...] = ()
SCRIPT = "infer_torch.py"
FILE = "model.aoti.pt2"


def missing() -> str:
    """Inductor calls a C++ compiler: CXX, else g++."""
    compiler = os.environ.get("CXX", "g++")
    return "" if shutil.which(compiler) else f"needs the C++ compiler {compiler} (install g++ or set CXX)"


def write(exported: ExportedProgram, names: Names, folder: Path) -> None:
    """Compile and package; takes minutes for a large graph."""
    torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / FILE))
