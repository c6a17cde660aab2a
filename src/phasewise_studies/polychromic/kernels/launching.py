"""Where Triton's kernels run, overlap of consecutive ones, and barriers between the programs of one: what no tile needs to know.

`PDL` is a constant of each kernel: off in the interpreter and where the GPU has no programmatic dependent launch (before Hopper).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from phasewise.kit.kernels import runs_kernels

# bytes that one prefetch brings into the second-level cache: a line
LINE: tl.constexpr = tl.constexpr(128)


def has_half_kernel(device: torch.device | str, dtype: torch.dtype = torch.float32) -> bool:
    """Whether kernels of this study, of float32 and of 16-bit floats, answer for tensors of this device and dtype."""
    return dtype in (torch.float32, torch.bfloat16, torch.float16) and runs_kernels(device)


@triton.jit
def follow(PDL: tl.constexpr):
    """Let the next kernel start to ask for its weights, and wait until those before this one have ended.

    The next one waits here in its turn, for the end of this one: nothing is read before it was written.
    """
    if PDL:
        gdc_launch_dependents()
        gdc_wait()


@triton.jit
def fetch_ahead(w, K: tl.constexpr, COUNT: tl.constexpr, ON: tl.constexpr):
    """Ask for COUNT rows of K weights from `w` on, without waiting for them."""
    if ON:
        per_line: tl.constexpr = LINE // (w.dtype.element_ty.primitive_bitwidth // 8)
        for first in tl.static_range(0, COUNT * K, 256 * per_line):
            i = first + tl.arange(0, 256) * per_line
            address = (w + tl.minimum(i, COUNT * K - 1)).to(tl.int64)
            tl.inline_asm_elementwise(
                "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [address], dtype=tl.int32, is_pure=False, pack=1
            )


@triton.jit
def meet(counter, everyone):
    """Until `everyone` programs in all have come here; what any of them wrote before can be read after.

    Counters only go up: the k-th meeting of n programs waits for k n. All of them have to run at once.
    """
    # all threads of this program have written before one of them says so
    tl.debug_barrier()
    arrived = tl.atomic_add(counter, 1, sem="release", scope="gpu") + 1
    while arrived < everyone:
        arrived = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()
