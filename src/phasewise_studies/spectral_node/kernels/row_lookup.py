"""Triton device functions: one row of a table in shared memory, looked up by every thread of a program.

A row (N values on an even grid of c in [-1, 1], N at most ROW - 1, ROW a power of two) is kept as pairs (value in the middle
of a cell, rise over it), so that one 8-byte read gives a linear interpolation. `tl.gather` can't do that: it lays the whole row
into each warp. Tensors of concentrations have one axis, the transitions; those of `open_row` one axis, the cells. Without inline assembly (the interpreter) the row stays where it is.
"""

from __future__ import annotations

import triton
import triton.language as tl

# 1.5 x 2^23: adding it rounds a float32 to an integer, which then stands in its low bits
ROUND = tl.constexpr(12582912.0)
# eight times the same number's bits, 0x4B400000, modulo 2^32
ROUND_BYTES = tl.constexpr(0x5A000000)


@triton.constexpr_function
def _declare(words: int) -> str:
    """PTX that reserves `words` x 8 bytes of shared memory and returns where, less ROUND_BYTES; one for a kernel.

    $1 is any positive number. As a product with a number that ptxas can't know to be 1, the subtraction stays out of the loops.
    """
    return f"""{{
    .shared .align 16 .b8 row[{8 * words}];
    .reg .b32 one;
    min.s32 one, $1, 1;
    mov.u32 $0, row;
    mad.lo.s32 $0, one, -1509949440, $0;
    }}"""


@triton.jit
def _pair(table, at, count, scale):
    """Middle and rise of cell `at`; cells past the end are flat."""
    last = count - 1
    low = tl.load(table + tl.minimum(at, last)) * scale
    high = tl.load(table + tl.minimum(at + 1, last)) * scale
    return 0.5 * (low + high), high - low


@triton.jit
def open_row(table, count, scale, ROW: tl.constexpr, PTX: tl.constexpr):
    """Copy one row (a pointer to `count` float32), times `scale`; returns what `look_up` needs."""
    if PTX:
        base = tl.inline_asm_elementwise(_declare(ROW), "=r,r", [count], dtype=tl.int32, is_pure=False, pack=1)
        at = tl.arange(0, ROW)
        middle, rise = _pair(table, at, count, scale)
        tl.inline_asm_elementwise(
            "st.shared.v2.f32 [$1], {$2, $3}; mov.u32 $0, 0;", "=r,r,f,f", [base + ROUND_BYTES + 8 * at, middle, rise],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        tl.debug_barrier()
        return base
    else:
        return table


@triton.jit
def look_up(row, c, count, scale, ROW: tl.constexpr, PTX: tl.constexpr):
    """Linear interpolation at c; c outside [-1, 1] counts as the end."""
    last = (count - 1).to(tl.float32)
    if PTX:
        # a saturating multiply-add clamps to [0, 1] for nothing
        part = tl.inline_asm_elementwise(
            "fma.rn.sat.f32 $0, $1, 0f3F000000, 0f3F000000;", "=f,f", [c], dtype=tl.float32, is_pure=True, pack=1
        )
        position = part * last - 0.5
        rounded = position + ROUND
        cell = position - (rounded - ROUND)
        middle, rise = tl.inline_asm_elementwise(
            "ld.shared.v2.f32 {$0, $1}, [$2];", "=f,=f,r", [row + 8 * rounded.to(tl.int32, bitcast=True)],
            dtype=(tl.float32, tl.float32), is_pure=False, pack=1,
        )  # fmt: skip
        return middle + cell * rise
    else:
        position = tl.minimum(tl.maximum(c * 0.5 + 0.5, 0.0), 1.0) * last
        left = tl.minimum(position.to(tl.int32), count - 2)
        low = tl.load(row + left) * scale
        return low + (position - left.to(tl.float32)) * (tl.load(row + left + 1) * scale - low)
