"""What a step amounts to by count."""

from __future__ import annotations

import torch

from phasewise.bench.counting import count_work
from phasewise.bench.stepper import Bench


def count(step) -> tuple[int, int]:
    work = count_work(Bench(device=torch.device("cpu"), step=lambda _: step()))
    return work.operators, work.elements


def test_what_operators_read_and_write_counts_and_a_view_touches_nothing() -> None:
    x, w = torch.ones(3, 5), torch.ones(5, 2)
    assert count(lambda: x + x) == (1, 15 + 15 + 15)
    assert count(lambda: x @ w) == (1, 15 + 10 + 6)
    assert count(lambda: x.view(5, 3)) == (1, 0)
    assert count(lambda: x.add_(1)) == (1, 15 + 15)
    assert count(lambda: None) == (0, 0)


def test_memory_that_is_only_allocated_is_not_touched() -> None:
    x = torch.ones(3, 5)
    assert (
        count(lambda: (torch.empty(10**6), torch.empty_like(x), x.new_empty(9), torch.empty_strided((4,), (1,))))[1]
        == 0
    )
    assert count(lambda: torch.empty(7).fill_(1)) == (2, 7 + 7)


def test_a_backward_pass_counts_too() -> None:
    w = torch.ones(4, requires_grad=True)

    def forward() -> torch.Tensor:
        return (w * w).sum()

    assert count(lambda: forward().backward())[0] > count(forward)[0]


def test_the_longer_sum_of_a_larger_shape_is_more_work_an_item() -> None:
    """As many operators and results an item, and twice as much to read."""
    small, large = (count(lambda n=n: [torch.ones(n).sum() for _ in range(n)]) for n in (10, 20))
    assert large[0] == 2 * small[0] and large[1] > 3 * small[1]


def test_what_is_compiled_counts_as_it_is_written() -> None:
    def form(x: torch.Tensor) -> torch.Tensor:
        return (x[0] * 2 + x).relu()

    small, large = torch.ones(4, 4), torch.ones(5, 5)
    compiled = torch.compile(form, fullgraph=True, backend="eager")
    compiled(small)
    # the second shape was never compiled
    assert [count(lambda x=x: compiled(x)) for x in (small, large)] == [
        count(lambda x=x: form(x)) for x in (small, large)
    ]
