"""What makes Triton's interpreter faster gives what it gave before."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from phasewise.kit.interpreter import combine_neighbours, remember_types

interpreter = pytest.importorskip("triton.runtime.interpreter")
tl = pytest.importorskip("triton.language")


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_reduction_by_pairs_is_that_from_element_to_element(axis, keep_dims):
    def chain(a, b, c, d):
        # x -> a x + b, and then x -> c x + d: which of them is first matters
        a, b, c, d = (part.handle.data for part in (a, b, c, d))
        return reduction.to_tensor(c * a, tl.float32), reduction.to_tensor(c * b + d, tl.float32)

    reduction = interpreter.ReduceOps(axis, SimpleNamespace(fn=chain), keep_dims)
    draw = np.random.default_rng(0)
    # without an axis the interpreter takes several tensors of one dimension only
    shape = 32 if axis is None else (4, 8)
    # small whole numbers: no order of products and sums rounds
    given = tuple(reduction.to_tensor(draw.integers(low, 3, shape).astype(np.float32), tl.float32) for low in (1, -2))
    found, wanted = combine_neighbours(reduction, given), reduction.generic_reduce(given)
    assert len(found) == len(wanted) == 2
    for one, other in zip(found, wanted, strict=True):
        assert one.type == other.type and one.handle.dtype == other.handle.dtype
        assert one.handle.data.shape == other.handle.data.shape and one.handle.data.dtype == other.handle.data.dtype
        assert np.array_equal(one.handle.data, other.handle.data)
    # another order gives something else
    turned = tuple(reduction.to_tensor(np.flip(part.handle.data).copy(), tl.float32) for part in given)
    assert any(
        not np.array_equal(one.handle.data, other.handle.data)
        for one, other in zip(combine_neighbours(reduction, turned), wanted, strict=True)
    )


def test_types_are_looked_up_once_and_are_the_same(monkeypatch):
    find = interpreter._get_np_dtype
    monkeypatch.setattr(interpreter, "_get_np_dtype", find)
    remember_types()
    kinds = [tl.int1, tl.float32, tl.bfloat16, tl.pointer_type(tl.float16)]
    kinds += [tl.block_type(kind, [4]) for kind in kinds] + [tl.block_type(tl.int64, [2, 2])]
    for _ in range(2):
        assert [interpreter._get_np_dtype(kind) for kind in kinds] == [find(kind) for kind in kinds]
