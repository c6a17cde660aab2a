from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from phasewise.bench.threads import share_cores


@pytest.fixture(autouse=True)
def eight() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("concurrent_builds", "part"), [(0, 8), (1, 4), (2, 2), (5, 1), (40, 1)])
def test_each_of_several_builds_has_its_part_of_the_threads_and_all_of_them_after(
    concurrent_builds: int, part: int
) -> None:
    with share_cores(concurrent_builds):
        assert torch.get_num_threads() == part
    assert torch.get_num_threads() == 8


def test_a_number_that_the_program_chose_stays() -> None:
    with share_cores(3):
        torch.set_num_threads(5)
    assert torch.get_num_threads() == 5
