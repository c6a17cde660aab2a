"""Raw CUDA as plain shared libraries, built by nvcc at their first use and kept between processes: no Python in them, so building takes seconds."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

BUILD_LIMIT_S = 300


class NotBuilt(Exception):
    """Why there is no library."""


def build(source: Path, architecture: str, into: Path, constants: Mapping[str, int] | None = None) -> None:
    """Compile for one architecture, such as sm_90, with `constants` defined for the preprocessor.

    Raises:
        NotBuilt: there is no compiler, or it refused.
    """
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        raise NotBuilt("nvcc is not on the PATH; install the CUDA toolkit")
    defines = [f"-D{name}={value}" for name, value in (constants or {}).items()]
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "library.so"
        options = [
            "-O3",
            "-std=c++17",
            f"-arch={architecture}",
            "-shared",
            "-Xcompiler",
            "-fPIC",
            f"-I{source.parent}",
            *defines,
        ]
        try:
            done = subprocess.run(
                [compiler, *options, "-o", str(part), str(source)],
                capture_output=True,
                text=True,
                timeout=BUILD_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotBuilt(f"nvcc did not finish: {error}") from error
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise NotBuilt(f"nvcc refused the source: {lines[0] if lines else 'no message'}")
        into.parent.mkdir(parents=True, exist_ok=True)
        # renamed at the end: another process never loads half a file
        whole = into.with_suffix(f".{os.getpid()}")
        shutil.copyfile(part, whole)
        whole.replace(into)


def load(source: Path, capability: tuple[int, int], constants: Mapping[str, int] | None = None) -> ctypes.CDLL:
    """The library of this source for a compute capability, built unless it was before.

    Raises:
        NotBuilt: it can be neither built nor loaded.
    """
    path = _cached(source, capability, constants or {})
    if not path.exists():
        build(source, f"sm_{capability[0]}{capability[1]}", path, constants)
    return open_library(path)


def open_library(path: Path) -> ctypes.CDLL:
    """Raises NotBuilt if the file is no library for this machine."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise NotBuilt(f"{path.name} cannot be loaded: {error}") from error


def _cached(source: Path, capability: tuple[int, int], constants: Mapping[str, int]) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "phasewise" / "polychromic"
    # headers beside it are part of it
    parts = [path.read_bytes() for path in (source, *sorted(source.parent.glob("*.cuh")))]
    name = hashlib.sha256(b"".join([*parts, repr(sorted(constants.items())).encode()])).hexdigest()[:16]
    return folder / f"{source.stem}-{name}-sm{capability[0]}{capability[1]}.so"
