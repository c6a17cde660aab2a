"""Tensors are compared the way a gate needs it: nothing slips through as nan, and equal means equal."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phasewise.tensors import (
    all_same_bits,
    difference,
    opaque_in,
    overlaps,
    overwrite,
    place,
    poison,
    same_bits,
    tensors_in,
)

NAN, INF = float("nan"), float("inf")


def compare(value, reference, rtol=1e-4, atol=1e-5):
    return difference(torch.as_tensor(value), torch.as_tensor(reference, dtype=torch.float64), rtol=rtol, atol=atol)


def test_equal_tensors_have_no_error():
    found = compare([1.0, -2.0, 0.0], [1.0, -2.0, 0.0])
    assert (found.max_abs, found.relative, found.worst, found.within) == (0.0, 0.0, 0.0, True)


def test_an_error_is_found_where_it_is_largest_in_allowances():
    found = compare([[100.5, 1.0], [2.0, 0.1]], [[100.0, 1.0], [2.0, 0.0]], rtol=0.01, atol=0.01)
    assert found.where == (1, 1)
    assert found.worst == pytest.approx(10)
    assert found.max_abs == pytest.approx(0.5)
    assert not found.within


def test_a_reference_of_zero_that_is_matched_is_no_error_even_without_atol():
    assert compare([0.0, 1.0], [0.0, 1.0], rtol=1e-6, atol=0.0).within


def test_a_reference_of_zero_that_is_missed_without_atol_is_infinitely_wrong():
    found = compare([1e-30, 1.0], [0.0, 1.0], rtol=1e-6, atol=0.0)
    assert found.worst is None
    assert not found.within


def test_relative_error_is_unknown_against_zeros():
    assert compare([1e-9], [0.0]).relative is None


@pytest.mark.parametrize("value", [[NAN, 1.0], [INF, 1.0], [-INF, 1.0]])
def test_non_finite_values_where_the_reference_is_finite_are_a_problem(value):
    found = compare(value, [0.0, 1.0], atol=1e9)
    assert "first at [0]" in found.problem
    assert not found.within


@pytest.mark.parametrize("reference", [[NAN, 1.0], [INF, 1.0]])
def test_finite_values_where_the_reference_is_not_are_a_problem(reference):
    assert not compare([0.0, 1.0], reference, atol=1e9).within


def test_non_finite_values_in_the_same_places_agree():
    assert compare([NAN, INF, -INF, 1.0], [NAN, INF, -INF, 1.0]).within
    assert not compare([INF], [-INF]).within


def test_integers_have_to_be_equal():
    found = difference(torch.tensor([1, 2, 4]), torch.tensor([1, 2, 3]), rtol=1.0, atol=1.0)
    assert "first at [2]: 4 for 3" in found.problem
    assert difference(torch.tensor([1], dtype=torch.int32), torch.tensor([1]), rtol=0, atol=0).within


def test_booleans_have_to_be_equal():
    assert not difference(torch.tensor([True, False]), torch.tensor([True, True]), rtol=1, atol=1).within


def test_complex_numbers_are_compared_by_distance():
    found = difference(torch.tensor([3 + 4j]), torch.tensor([0j], dtype=torch.complex128), rtol=0, atol=10)
    assert found.max_abs == pytest.approx(5)
    assert found.within


def test_shapes_and_kinds_of_number_have_to_agree():
    assert "shape is (2,)" in compare([1.0, 1.0], [1.0]).problem
    assert "another kind of number" in compare([1], [1.0]).problem
    assert "another kind of number" in difference(torch.tensor([1.0]), torch.tensor([1 + 0j]), rtol=1, atol=1).problem


def test_empty_tensors_agree():
    assert compare(torch.empty(0, 3), torch.empty(0, 3)).within


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=20), st.floats(1e-12, 1.0), st.floats(1e-12, 1.0))
def test_within_says_the_same_as_isclose(values, rtol, atol):
    reference = torch.tensor(values, dtype=torch.float64)
    value = reference * (1 + 0.5 * rtol) + 0.7 * atol
    expected = bool(((value - reference).abs() / (atol + rtol * reference.abs()) <= 1).all())
    assert difference(value, reference, rtol=rtol, atol=atol).within is expected


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_place_is_the_inverse_of_flattening(sizes, data):
    tensor = torch.arange(torch.tensor(sizes).prod().item()).reshape(sizes)
    index = data.draw(st.integers(0, tensor.numel() - 1))
    assert tensor[place(index, tuple(sizes))].item() == index


def test_bits_tell_negative_zero_and_nan_payloads_apart():
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    # eight bytes at a time, or one where memory does not begin there, or ends there
    for start, count in ((0, 4), (1, 4), (0, 3), (2, 5)):
        left = torch.arange(8, dtype=torch.int32)[start : start + count]
        right = left.clone()
        assert same_bits(left, right) and same_bits(left, torch.arange(9, dtype=torch.int32)[start : start + count])
        right[-1] += 1
        assert not same_bits(left, right) and not same_bits(right, left)
    assert same_bits(torch.tensor([NAN]), torch.tensor([NAN]))
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64))
    assert same_bits(torch.tensor([True]), torch.tensor([True]))
    assert same_bits(torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]))


def test_sets_of_names_have_to_be_the_same():
    assert not all_same_bits({"a": torch.zeros(1)}, {"b": torch.zeros(1)})


@dataclass(frozen=True)
class Graph:
    edges: torch.Tensor
    count: int


def test_tensors_are_found_in_nested_structures():
    value = {"x": [torch.zeros(1), (torch.ones(2),)], "graph": Graph(torch.zeros(3), 3)}
    assert list(tensors_in(value)) == ["/x/0", "/x/1/0", "/graph/edges"]
    assert opaque_in(value) == []
    assert opaque_in({"x": object()}) == ["/x"]


def test_slices_of_one_buffer_overlap_only_where_they_meet():
    buffer = torch.zeros(10)
    assert overlaps(buffer[:5], buffer[4:])
    assert not overlaps(buffer[:5], buffer[5:])
    assert not overlaps(buffer, torch.zeros(10))
    assert not overlaps(buffer[:0], buffer)


def test_overwriting_copies_values_into_the_same_memory():
    target = {"x": torch.zeros(2), "n": 3}
    held = target["x"]
    assert overwrite(target, {"x": torch.ones(2), "n": 3}) == ""
    assert held.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"x": torch.ones(3), "n": 3}, "shape"),
        ({"x": torch.ones(2), "n": 4}, "plain value at /n"),
        ({"x": torch.ones(2)}, "different structures"),
    ],
)
def test_overwriting_is_refused_with_the_reason_where_batches_differ(source, reason):
    target = {"x": torch.zeros(2), "n": 3}
    assert reason in overwrite(target, source)
    assert target["x"].tolist() == [0, 0]


def test_poison_reaches_expanded_inference_and_leaf_tensors():
    with torch.inference_mode():
        made = torch.zeros(2)
    leaf = torch.zeros(2, requires_grad=True)
    expanded = torch.zeros(1, 3).expand(4, 3)
    for tensor in (made, leaf, expanded, torch.zeros(2, dtype=torch.complex64), torch.tensor(1.0)):
        poison(tensor)
        assert torch.isnan(tensor).all()
    buffer = torch.zeros(6)
    poison(buffer[2:4])
    assert torch.isnan(buffer).tolist() == [False, False, True, True, False, False]


def test_no_number_is_given_for_the_distance_to_nan():
    found = compare([NAN, 1.0], [0.0, 1.0])
    assert (found.max_abs, found.relative, found.worst) == (None, None, None)
