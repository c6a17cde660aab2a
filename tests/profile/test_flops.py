"""Operations by hand, and beside what torch counts where it does."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import flop_registry

from phasewise.profile.flops import FORMULAS, count_flops

QUERY, KEY, VALUE = (2, 3, 7, 16), (2, 3, 9, 16), (2, 3, 9, 8)
SCORES = 2 * 3 * 7 * 9
CALLS = (
    ("mm", [(8, 4), (4, 5)], 2 * 8 * 4 * 5),
    ("mv", [(8, 4), (4,)], 2 * 8 * 4),
    ("addmm", [(5,), (8, 4), (4, 5)], 2 * 8 * 4 * 5),
    ("addmm_", [(8, 5), (8, 4), (4, 5)], 2 * 8 * 4 * 5),
    ("_addmm_activation", [(5,), (8, 4), (4, 5), 1, 1, False], 2 * 8 * 4 * 5),
    ("bmm", [(3, 8, 4), (3, 4, 5)], 2 * 3 * 8 * 4 * 5),
    ("baddbmm", [(3, 8, 5), (3, 8, 4), (3, 4, 5)], 2 * 3 * 8 * 4 * 5),
    # 5 x 6 places, each met by 6 x 4 x 3 x 2 weights
    ("convolution", [(2, 4, 9, 12), (6, 4, 3, 2), None, [2], [1, 0], [1, 1], False, [0], 1], 2 * 2 * 5 * 6 * 6 * 4 * 3 * 2),
    # in two groups each place meets half as many
    ("convolution", [(2, 4, 9), (6, 2, 3), None, [1], [0], [2], False, [0], 2], 2 * 2 * 5 * 6 * 2 * 3),
    ("convolution", [(2, 4, 9), (4, 6, 3), None, [2], [0], [1], True, [0], 1], 2 * 2 * 9 * 4 * 6 * 3),
    ("_scaled_dot_product_flash_attention_for_cpu", [QUERY, KEY, VALUE], 2 * SCORES * (16 + 8)),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", [(2, 3, 7, 8), QUERY, KEY, VALUE], 2 * SCORES * (3 * 16 + 2 * 8)),
)  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "flops"), CALLS)
def test_operations_are_those_by_hand(name, arguments, flops):
    assert count_flops(f"aten::{name}", arguments) == flops


@pytest.mark.parametrize(
    ("wanted", "gradients"), [([True, True, True], 2), ([False, True, True], 1), ([False, False, True], 0)]
)
def test_a_convolution_backward_costs_a_pass_for_each_gradient(wanted, gradients):
    arguments = [(2, 6, 5), (2, 4, 9), (6, 2, 3), [6], [1], [0], [2], False, [0], 2, wanted]
    assert count_flops("aten::convolution_backward", arguments) == gradients * 2 * 2 * 5 * 6 * 2 * 3


def test_what_is_no_product_or_has_unknown_shapes_is_not_counted():
    for name, arguments in (
        ("aten::exp", [(8, 4)]), ("aten::mm", []), ("aten::mm", [(8, 4), (5, 4)]), ("aten::mm", [None, None]),
        ("aten::convolution", [(2, 4, 9), (6, 2, 3), None, None, None, None, False]),
        ("aten::_scaled_dot_product_flash_attention", [(7, 3, 16), (9, 3, 16), (9, 3, 16)]),
        # it is made of products, which are counted
        ("aten::_scaled_dot_product_attention_math", [QUERY, KEY, VALUE]),
    ):  # fmt: skip
        assert count_flops(name, arguments) is None


def test_torch_counts_the_same_where_it_counts():
    arguments = {
        "mm": [(8, 4), (4, 5)], "addmm": [(5,), (8, 4), (4, 5)], "bmm": [(3, 8, 4), (3, 4, 5)],
        "baddbmm": [(3, 8, 5), (3, 8, 4), (3, 4, 5)],
    }  # fmt: skip
    attention = {name for name in FORMULAS if name.startswith("_scaled_dot_product")}
    for name in attention:
        arguments[name] = [*[QUERY] * name.endswith("_backward"), QUERY, KEY, KEY]
    known = {name for name in arguments if getattr(torch.ops.aten, name) in flop_registry}
    assert known >= {"mm", "addmm", "_scaled_dot_product_flash_attention_backward"}
    for name in known:
        assert count_flops(name, arguments[name]) == flop_registry[getattr(torch.ops.aten, name)](*arguments[name])
