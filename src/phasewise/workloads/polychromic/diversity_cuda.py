"""The raw CUDA form of the diversity, built by nvcc at its first use, or loaded prebuilt; with the reason where neither works.

The library has no Python in it (ctypes calls it), so building takes seconds. To build it ahead, for another machine:
    python -m phasewise.workloads.polychromic.diversity_cuda --architecture sm_90 --into libdiversity.so
and set POLYCHROMIC_CUDA_LIBRARY to the file there.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from phasewise.workloads.polychromic.diversity import diversity_closed

SOURCE = Path(__file__).with_name("diversity.cu")
PREBUILT = "POLYCHROMIC_CUDA_LIBRARY"
THREADS = 128
# shared memory that a block of compute capability 7.5 may have; larger groups take the closed form
MOST_FLOATS = 64 * 1024 // 4
BUILD_LIMIT_S = 300


class NotBuilt(Exception):
    """Why there is no library."""


def why_not(device: torch.device | str) -> str:
    """Why the closed form in PyTorch runs instead on `device`; "" if the kernel does."""
    if torch.device(device).type != "cuda":
        return "no NVIDIA GPU, the closed form in PyTorch ran instead"
    try:
        _load(torch.cuda.get_device_capability(device))
    except NotBuilt as reason:
        warnings.warn(f"CUDA extension not available, using PyTorch: {reason}", stacklevel=2)
        return str(reason)
    return ""


def diversity_cuda(e_GND: Tensor) -> tuple[Tensor, Tensor]:
    """D (G,) and marginals A (G, n) in float32."""
    groups, n, width = e_GND.shape
    floats = n * width + width + 2 * n + 32
    if e_GND.dtype is not torch.float32 or width % 4 or floats > MOST_FLOATS or why_not(e_GND.device):
        return diversity_closed(e_GND)
    e_GND = e_GND.contiguous()
    score = torch.empty(groups, device=e_GND.device)
    marginals = torch.empty(groups, n, device=e_GND.device)
    if groups and n:
        library = _load(torch.cuda.get_device_capability(e_GND.device))
        stream = torch.cuda.current_stream(e_GND.device).cuda_stream
        code = library.polychromic_diversity(
            e_GND.data_ptr(), score.data_ptr(), marginals.data_ptr(), groups, n, width, THREADS, stream
        )
        if code:
            raise RuntimeError(f"the CUDA diversity kernel did not start: cudaError {code}")
    return score, marginals


def build(architecture: str, into: Path) -> None:
    """Compile the library for one architecture, such as sm_90.

    Raises:
        NotBuilt: there is no compiler, or it refused.
    """
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        raise NotBuilt(
            "nvcc is not on the PATH; install the CUDA toolkit, or set " + PREBUILT + " to a prebuilt library"
        )
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "library.so"
        command = [
            compiler,
            "-O3",
            "-std=c++17",
            f"-arch={architecture}",
            "-shared",
            "-Xcompiler",
            "-fPIC",
            "-o",
            str(part),
            str(SOURCE),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
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


@lru_cache
def _load(capability: tuple[int, int]) -> ctypes.CDLL:
    prebuilt = os.environ.get(PREBUILT)
    path = Path(prebuilt) if prebuilt else _cached(capability)
    if not prebuilt and not path.exists():
        build(f"sm_{capability[0]}{capability[1]}", path)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NotBuilt(f"{path.name} cannot be loaded: {error}") from error
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.polychromic_diversity.argtypes = [pointer, pointer, pointer, number, number, number, number, pointer]
    library.polychromic_diversity.restype = number
    return library


def _cached(capability: tuple[int, int]) -> Path:
    """Where the library of this source and architecture is kept between processes."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "phasewise" / "polychromic"
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    return folder / f"diversity-{name}-sm{capability[0]}{capability[1]}.so"


def main() -> None:
    """Build the library ahead."""
    parser = argparse.ArgumentParser(description="Build the diversity kernel for another machine.")
    parser.add_argument("--architecture", default="sm_90", help="such as sm_75, sm_80 or sm_90")
    parser.add_argument("--into", type=Path, default=Path("libdiversity.so"))
    options = parser.parse_args()
    build(options.architecture, options.into)


if __name__ == "__main__":
    main()
