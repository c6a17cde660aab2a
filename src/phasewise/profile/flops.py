"""Floating-point operations of an operator by the shapes of its arguments: the one way in which traces and watched calls are counted.

The formulas are those of torch.utils.flop_counter. It has none for attention on a CPU and for products with a vector, and it takes
the backward pass of a convolution in groups for one without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

# in the order of the operator's schema: a tensor as the tuple of its sizes, anything else as it is
Arguments = Sequence[Any]


def count_flops(name: str, arguments: Arguments) -> float | None:
    """Of a matrix product, a convolution or attention, such as `aten::addmm`, forward or backward; None for any other, or where a
    shape is not known.
    """
    if not has_formula(name):
        return None
    try:
        return float(FORMULAS[_base(name)](arguments))
    # a trace may lack arguments, and nested tensors have no sizes
    except (IndexError, TypeError, ValueError):
        return None


def has_formula(name: str) -> bool:
    """Whether operators of this name are counted."""
    return _base(name) in FORMULAS


def _base(name: str) -> str:
    return name.removeprefix("aten::").removesuffix("_")


def count_product(arguments: Arguments) -> int:
    """2 m n k, times the batch: of the first two arguments, of which the second may be a vector."""
    left, right = arguments[:2]
    if left[-1] != right[-2 if len(right) > 1 else 0]:
        raise ValueError
    return 2 * prod(left) * (right[-1] if len(right) > 1 else 1)


def count_sum_and_product(arguments: Arguments) -> int:
    """Of the second and third argument; what is added to it does not count."""
    return count_product(arguments[1:])


def count_convolution(arguments: Arguments) -> int:
    """Each weight meets each place of the result, or of the argument if it is transposed; padding counts as if it were there."""
    batch, weights, _, strides, paddings, dilations, is_transposed = arguments[:7]
    places = batch[2:] if is_transposed else _find_places(batch[2:], weights[2:], strides, paddings, dilations)
    return 2 * batch[0] * prod(places) * prod(weights)


def count_convolution_backward(arguments: Arguments) -> int:
    """As much as forward for the gradient of the argument, and again for that of the weights."""
    result, batch, weights = arguments[:3]
    places, wanted = (batch if arguments[7] else result)[2:], arguments[10]
    return 2 * batch[0] * prod(places) * prod(weights) * (wanted[0] + wanted[1])


def count_attention(arguments: Arguments) -> int:
    """Scores 2 b h s t d, and their product with the values 2 b h s t e; a causal mask counts as if it were none."""
    scores, width, values = _measure_attention(arguments)
    return 2 * scores * (width + values)


def count_attention_backward(arguments: Arguments) -> int:
    """The scores once more, then the gradients of both factors of both products."""
    scores, width, values = _measure_attention(arguments[1:])
    return 2 * scores * (3 * width + 2 * values)


def _find_places(sizes: Arguments, window: Arguments, *options: Arguments) -> list[int]:
    """Sizes of a convolution's result, as the documentation of torch.nn.Conv2d has them; an option of one number is of all dimensions."""
    spread = (each if len(each) == len(sizes) else [*each] * len(sizes) for each in options)
    return [
        (size + 2 * padding - dilation * (width - 1) - 1) // stride + 1
        for size, width, stride, padding, dilation in zip(sizes, window, *spread, strict=True)
    ]


def _measure_attention(arguments: Arguments) -> tuple[int, int, int]:
    """Number of scores, width of a query, width of a value: of query, key and value, each batch x heads x length x width."""
    (batch, heads, queries, width), (_, _, keys, _), (*_, values) = arguments[:3]
    return batch * heads * queries * keys, width, values


ATTENTION = tuple(
    f"_scaled_dot_product_{kind}"
    for kind in (
        "flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu",
        "fused_attention_overrideable",
    )
)  # fmt: skip
FORMULAS: dict[str, Callable[[Arguments], int]] = {
    **dict.fromkeys(("mm", "mv", "bmm", "_scaled_mm"), count_product),
    **dict.fromkeys(("addmm", "addmv", "baddbmm", "_addmm_activation"), count_sum_and_product),
    **dict.fromkeys(("convolution", "_convolution"), count_convolution),
    "convolution_backward": count_convolution_backward,
    **dict.fromkeys(ATTENTION, count_attention),
    **dict.fromkeys((f"{name}_backward" for name in ATTENTION), count_attention_backward),
}
