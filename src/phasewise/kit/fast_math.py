"""Functions for Triton kernels: what the special-function unit does in one instruction.

PTX is a constant of the kernel: whether inline assembly may be used, which Triton's interpreter can't.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def reciprocal(x, PTX: tl.constexpr):
    """1/x of float32 to 1 ulp; plain division without PTX."""
    if PTX:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / x


@triton.jit
def power_of_two(x, PTX: tl.constexpr):
    """2^x of float32; with PTX it is 0 below -126."""
    if PTX:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return tl.exp2(x)
