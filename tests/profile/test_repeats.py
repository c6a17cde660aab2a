from hypothesis import given
from hypothesis import strategies as st

from phasewise.profile.repeats import Loop, find_loop


def test_the_outer_loop_is_found_even_if_its_body_repeats_an_operator():
    body = ["mm", "add", "add", "add", "tanh"]
    assert find_loop([*["start"], *body * 20, "end"]) == Loop(first=1, period=5, passes=20, end=101)


def test_an_inner_loop_of_more_passes_wins():
    assert find_loop((["a"] * 9 + ["b"]) * 4) == Loop(first=0, period=1, passes=9, end=9)


def test_a_pass_that_skips_a_branch_does_not_end_the_loop():
    """Sixteen sentences of which one is of full length, so that its mask is not made."""
    body, short = ["where", "full", "mm", "softmax", "mm", "gelu"], ["mm", "softmax", "mm", "gelu"]
    names = ["randn", *body * 7, *short, *body * 8, "stack"]
    found = find_loop(names)
    # the passes that are alike, and a stretch that ends in the last of them
    assert found is not None and (found.first, found.period, found.passes) == (1, 6, 15)
    assert len(names) - 1 - 6 < found.end <= len(names) - 1


def test_loops_that_are_far_apart_are_two():
    body = ["mm", "add", "tanh", "mul"]
    between = [f"other{index}" for index in range(20)]
    found = find_loop([*body * 5, *between, *body * 6])
    assert found is not None and (found.first, found.passes) == (40, 6)


def test_two_passes_are_no_loop():
    assert find_loop(["a", "b", "a", "b"]) is None
    assert find_loop([]) is None


@given(
    st.lists(st.sampled_from("abcde"), min_size=1, max_size=6),
    st.integers(3, 12),
    st.lists(st.sampled_from("xyz"), max_size=4),
)
def test_a_planted_loop_is_found_with_at_least_its_passes(body, passes, before):
    names = [*before, *body * passes]
    found = find_loop(names)
    assert found.passes >= passes
    stretch = names[found.first : found.first + found.period * found.passes]
    assert stretch == stretch[: found.period] * found.passes
