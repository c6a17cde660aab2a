from __future__ import annotations

import gc
import weakref

import pytest
import torch

from phasewise.kit.batches import DoesNotFit, find_largest, is_out_of_memory, run_halving


def fits_up_to(limit: int):
    def work(size: int) -> torch.Tensor:
        if size > limit:
            raise torch.OutOfMemoryError(f"Tried to allocate {size} GiB.\nmore advice")
        return torch.nn.TransformerEncoderLayer(16, 2, 32)(torch.rand(3, size, 16)).sum(0)

    return work


def test_a_batch_is_halved_until_it_fits_and_every_try_is_on_record() -> None:
    halved = run_halving(fits_up_to(5), 20)
    assert halved.size == 5 and halved.result.shape == (5, 16)
    assert [(attempt.size, attempt.error) for attempt in halved.history] == [
        (20, "Tried to allocate 20 GiB."),
        (10, "Tried to allocate 10 GiB."),
        (5, ""),
    ]


def test_a_batch_that_fits_is_run_once() -> None:
    assert [attempt.size for attempt in run_halving(fits_up_to(99), 7).history] == [7]


def test_the_smallest_batch_is_tried_last_and_then_the_error_holds_the_history() -> None:
    with pytest.raises(DoesNotFit, match=r"every batch size tried \(20, 10, 5, 4\): Tried to allocate 4 GiB") as caught:
        run_halving(fits_up_to(3), 20, smallest=4)
    assert [attempt.size for attempt in caught.value.history] == [20, 10, 5, 4]
    with pytest.raises(ValueError, match="smallest batch is 9; use a size from 1 to 8"):
        run_halving(fits_up_to(3), 8, smallest=9)


def test_the_largest_batch_is_found_by_doubling_and_then_halving_between() -> None:
    found = find_largest(fits_up_to(21), 2, 64)
    assert [attempt.size for attempt in found.history] == [2, 4, 8, 16, 32, 24, 20, 22]
    assert (found.size, found.capped) == (20, False)


def test_a_cap_that_fits_is_a_lower_bound_and_is_told_as_one() -> None:
    found = find_largest(fits_up_to(99), 4, 30)
    assert [attempt.size for attempt in found.history] == [4, 8, 16, 30]
    assert (found.size, found.capped) == (30, True)
    assert (find_largest(fits_up_to(99), 4, 4).size, find_largest(fits_up_to(5), 4, 30).size) == (4, 5)


def test_a_first_batch_that_does_not_fit_ends_the_search() -> None:
    with pytest.raises(DoesNotFit, match=r"tried \(8\)"):
        find_largest(fits_up_to(3), 8, 64)
    with pytest.raises(ValueError, match="first batch is 9; use a size from 1 to 8"):
        find_largest(fits_up_to(3), 9, 8)


def test_other_errors_are_not_caught() -> None:
    def work(size: int) -> None:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes do not fit"):
        run_halving(work, 8)


def test_the_host_allocator_running_out_is_told_from_other_errors() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("no"))


def test_tensors_of_a_failed_try_are_gone_before_the_next() -> None:
    made: list[weakref.ref] = []
    alive: list[bool] = []

    def work(size: int) -> int:
        gc.collect()
        alive.append(any(reference() is not None for reference in made))
        held = torch.zeros(size)
        made.append(weakref.ref(held))
        if size > 2:
            raise torch.OutOfMemoryError("no room")
        return size

    assert run_halving(work, 8).result == 2
    assert alive == [False, False, False]
