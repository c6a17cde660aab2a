"""Programmatic dependent launch: a kernel fetches what no step changes while the kernel before it ends."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def wait_for_predecessor(OVERLAP: tl.constexpr):
    """Until the kernel before has written all it writes. Only then may the next one start, so it sees that too."""
    if OVERLAP:
        gdc_wait()
        gdc_launch_dependents()


def overlapping(overlap: bool) -> dict[str, bool]:
    """The launch option that lets a kernel start while the one before it ends."""
    return {"launch_pdl": True} if overlap else {}
