"""decode_layers.cu as a library for this CPU: emulated_cuda stands for CUDA and for what only a GPU has."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from phasewise_studies.polychromic.kernels import decode_cuda
from phasewise_studies.polychromic.model.weights import ModelShape

# glibc's checks take a jump from one context to another for an error
OPTIONS = ("-std=c++20", "-O2", "-U_FORTIFY_SOURCE", "-shared", "-fPIC", "-x", "c++")


def build_emulated(shape: ModelShape, folder: Path) -> ctypes.CDLL:
    """The library for one shape of model; without a compiler the test is skipped."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++ (apt-get install g++)")
    into = folder / f"token-{shape.vocabulary}.so"
    defines = [f"-D{key}={value}" for key, value in decode_cuda.list_constants(shape).items()]
    headers = f"-I{Path(__file__).with_name('emulated_cuda')}"
    subprocess.run([compiler, *OPTIONS, headers, *defines, decode_cuda.SOURCE, "-o", into], check=True)
    return decode_cuda.declare(ctypes.CDLL(str(into)))
