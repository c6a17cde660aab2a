"""The raw CUDA form of the diversity, built by nvcc at its first use, or loaded prebuilt; with the reason where neither works.

The library has no Python in it (ctypes calls it), so building takes seconds. To build it ahead, for another machine:
    python -m phasewise_studies.polychromic.kernels.diversity_cuda --architecture sm_90 --into libdiversity.so
and set POLYCHROMIC_CUDA_LIBRARY to the file there.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import warnings
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from phasewise_studies.polychromic.kernels.cuda_library import NotBuilt, build, load, open_library
from phasewise_studies.polychromic.model.diversity import diversity_closed

SOURCE = Path(__file__).parent / "cuda/diversity.cu"
PREBUILT = "POLYCHROMIC_CUDA_LIBRARY"
THREADS = 128
# shared memory that a block of compute capability 7.5 may have; larger groups take the closed form
MOST_FLOATS = 64 * 1024 // 4


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


@lru_cache
def _load(capability: tuple[int, int]) -> ctypes.CDLL:
    prebuilt = os.environ.get(PREBUILT)
    library = open_library(Path(prebuilt)) if prebuilt else load(SOURCE, capability)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.polychromic_diversity.argtypes = [pointer, pointer, pointer, number, number, number, number, pointer]
    library.polychromic_diversity.restype = number
    return library


def main() -> None:
    """Build the library ahead."""
    parser = argparse.ArgumentParser(description="Build the diversity kernel for another machine.")
    parser.add_argument("--architecture", default="sm_90", help="such as sm_75, sm_80 or sm_90")
    parser.add_argument("--into", type=Path, default=Path("libdiversity.so"))
    options = parser.parse_args()
    try:
        build(SOURCE, options.architecture, options.into)
    except NotBuilt as reason:
        parser.exit(2, f"error: {options.into} was not built: {reason}\n")


if __name__ == "__main__":
    main()
