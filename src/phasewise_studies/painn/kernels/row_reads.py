"""What the kernels of messages read in one iteration over a row: who the edges come from, their records, the filter.

resident    a program's slice of the filter, 3 (K + 1) values a feature, is loaded once and stays in registers
streamed    a row of it is read in each iteration, once for all of its edges, from the first-level cache: registers are for edges
table       the rows that an edge combines are looked up for it
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def load_columns(base, stride, COUNT: tl.constexpr):
    """COUNT rows of a matrix, one block of columns each, as a tuple that stays in registers."""
    columns = ()
    for n in tl.static_range(COUNT):
        columns += (tl.load(base + n * stride),)
    return columns


@triton.jit
def load_filter(base, COUNT: tl.constexpr, FEATURES: tl.constexpr, HAS_MU: tl.constexpr):
    """COUNT rows of the three parts of a filter; without mu its part is not read."""
    q = load_columns(base, 3 * FEATURES, COUNT)
    r = load_columns(base + FEATURES, 3 * FEATURES, COUNT)
    m = load_columns(base + 2 * FEATURES, 3 * FEATURES, COUNT if HAS_MU else 0)
    return q, r, m


@triton.jit
def look_up(filters, f, record, COUNT: tl.constexpr, FEATURES: tl.constexpr, HAS_MU: tl.constexpr):
    """The rows of a table that one edge combines: its record ends with the number of the first of them."""
    row = record[COUNT + 3].to(tl.int64)
    return load_filter(filters + row * (3 * FEATURES) + f, COUNT, FEATURES, HAS_MU)


@triton.jit
def find_records(records, begin, end, SIZE: tl.constexpr, UNROLL: tl.constexpr):
    """Where the records of one iteration begin, SIZE pairs long each; an edge past the end has that of the last one.

    It adds nothing, since what it gathers is 0: four numbers to mask, where its records are 46.
    """
    wide = tl.full((), 0, tl.int64)
    found = ()
    for step in tl.static_range(UNROLL):
        found += (records + (wide + tl.minimum(begin + step, end - 1)) * SIZE,)
    return found


@triton.jit
def load_pairs(base, COUNT: tl.constexpr):
    """2 COUNT floats of one edge, the same for all threads, through 8-byte loads."""
    numbers = ()
    for n in tl.static_range(COUNT):
        two = tl.load(base + n)
        numbers += (
            two.to(tl.int32).to(tl.float32, bitcast=True),
            (two >> 32).to(tl.int32).to(tl.float32, bitcast=True),
        )
    return numbers


@triton.jit
def load_neighbours(j, begin, end, row, UNROLL: tl.constexpr, MASKED: tl.constexpr):
    """The other ends of the edges of one iteration; an edge past the end reads its own row."""
    found = ()
    for step in tl.static_range(UNROLL):
        # an if, since the branch that is not taken must not be compiled
        if MASKED:  # noqa: SIM108
            one = tl.load(j + begin + step, mask=begin + step < end, other=row)
        else:
            one = tl.load(j + begin + step)
        found += (one.to(tl.int64),)
    return found


@triton.jit
def load_direction(base, COUNT: tl.constexpr):
    """u of one edge: the three numbers behind the first COUNT of its record."""
    first: tl.constexpr = COUNT // 2
    numbers = load_pairs(base + first, (COUNT + 4) // 2 - first)
    at: tl.constexpr = COUNT - 2 * first
    return numbers[at], numbers[at + 1], numbers[at + 2]


@triton.jit
def contract(numbers, columns, COUNT: tl.constexpr):
    """sum_n numbers_n columns_n: the filter at one distance."""
    total = columns[0] * numbers[0]
    for n in tl.static_range(1, COUNT):
        total += columns[n] * numbers[n]
    return total


@triton.jit
def anew(at, e0, FEATURES: tl.constexpr):
    """The same place, which the compiler can't know: what stays the same it would move out of the loop, into registers.

    e0 counts edges, so its sign bits are 0; a multiple of FEATURES keeps reads of several numbers at once.
    """
    return at + (e0 >> 31) * FEATURES


@triton.jit
def make_zeros(BLOCK: tl.constexpr, COUNT: tl.constexpr):
    """A block of zeros for each edge of an iteration."""
    found = ()
    for _ in tl.static_range(COUNT):
        found += (tl.zeros((BLOCK,), tl.float32),)
    return found


@triton.jit
def load_two(bases, place: tl.constexpr, UNROLL: tl.constexpr):
    """Two numbers at `place` of each record of an iteration."""
    found = ()
    for step in tl.static_range(UNROLL):
        found += (load_pairs(bases[step] + place, 1),)
    return found


@triton.jit
def add_scaled(totals, numbers, which: tl.constexpr, row, UNROLL: tl.constexpr):
    """Each edge's total with its number times a row of the filter."""
    found = ()
    for step in tl.static_range(UNROLL):
        found += (totals[step] + numbers[step][which] * row,)
    return found


@triton.jit
def stream_filter(
    bases, at, COUNT: tl.constexpr, FEATURES: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr, HAS_MU: tl.constexpr
):  # fmt: skip
    """The three parts of the filter for each edge of an iteration: a row of `at` is read once for all of them."""
    q, r, m = make_zeros(BLOCK, UNROLL), make_zeros(BLOCK, UNROLL), make_zeros(BLOCK, UNROLL)
    for pair in tl.static_range((COUNT + 1) // 2):
        numbers = load_two(bases, pair, UNROLL)
        for which in tl.static_range(2):
            if 2 * pair + which < COUNT:
                row = at + (2 * pair + which) * (3 * FEATURES)
                q = add_scaled(q, numbers, which, tl.load(row), UNROLL)
                r = add_scaled(r, numbers, which, tl.load(row + FEATURES), UNROLL)
                if HAS_MU:
                    m = add_scaled(m, numbers, which, tl.load(row + 2 * FEATURES), UNROLL)
    return q, r, m
