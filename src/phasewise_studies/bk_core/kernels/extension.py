"""The diagonal by the CUDA C++ kernel of cuda/, built at first use; the Triton kernel or the reference where that can't be."""

from __future__ import annotations

import functools
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import torch

from phasewise_studies.bk_core import reference
from phasewise_studies.bk_core.kernels import dispatch

HERE = Path(__file__).parent
SOURCES = HERE / "cuda"
# all that is compiled, headers too: the plan reads these names, so that an edit of one measures the extension's variants again
FILES = ("cuda/binding.cpp", "cuda/rows.cu", "cuda/rows.h", "cuda/rows.cuh", "cuda/chunk.cuh")
# k of a whole row, the rings of eight warps and what the driver takes must fit in 227 KB of shared memory
LONGEST = 16_384
# asynchronous copies
CAPABILITY = (8, 0)


@functools.cache
def build_extension() -> Any:
    """The extension module, compiled or from torch's cache of extensions.

    Raises:
        OSError, RuntimeError, subprocess.CalledProcessError: no compiler, or a build that failed.
    """
    from torch.utils import cpp_extension

    if not cpp_extension.CUDA_HOME or not shutil.which(Path(cpp_extension.CUDA_HOME) / "bin" / "nvcc"):
        raise OSError("nvcc was not found (install the CUDA toolkit, or set CUDA_HOME)")
    return cpp_extension.load(
        "phasewise_bk_rows",
        [str(HERE / file) for file in FILES if file.endswith((".cpp", ".cu"))],
        extra_include_paths=[str(SOURCES)],
        extra_cflags=["-O2"],
        extra_cuda_cflags=["-O3"],
    )


def why_not(device: torch.device | str) -> str:
    """Why the extension can't run on this device; "" if it can. Builds it where that is still to be found out."""
    device = torch.device(device)
    if device.type != "cuda" or torch.version.cuda is None:
        return "no NVIDIA GPU"
    if torch.cuda.get_device_capability(device) < CAPABILITY:
        return f"compute capability {CAPABILITY[0]}.{CAPABILITY[1]} or newer is needed"
    try:
        build_extension()
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        return f"the build failed: {(str(error).strip() or type(error).__name__).splitlines()[0]}"
    return ""


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"bk_core's CUDA extension is not used, its fallback is: {reason}", stacklevel=3)


def diagonal(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex | torch.Tensor, *, causal: bool = False
) -> torch.Tensor:
    """`dispatch.diagonal` by the extension, for float32, couplings shared by the batch and a number z; else by `dispatch`."""
    reason = why_not(a.device)
    if not reason and (a.dtype != torch.float32 or b.ndim != 1 or c.ndim != 1 or isinstance(z, torch.Tensor)):
        reason = "it takes float32, couplings shared by the batch and a number z"
    if not reason and a.shape[1] > LONGEST:
        reason = f"rows are longer than {LONGEST}"
    if reason:
        _warn_once(reason)
        return dispatch.diagonal(a, b, c, z, causal=causal)
    reference.check_operands(a, b, c, z)
    sharp = abs(z.imag) < dispatch.SHARP_BELOW
    found: torch.Tensor = build_extension().diagonal(a.contiguous(), b, c, z.real, z.imag, causal, sharp)
    return found
