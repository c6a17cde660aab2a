"""Whether kernels run, and launching one again."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from phasewise.kit.kernels import describe_layout, launch_and_keep, runs_kernels


class Kernel:
    """Writes down how it was launched; like Triton's, it gives its compiled form, which is launched without names."""

    def __init__(self, *, compiles: bool) -> None:
        self.compiles = compiles
        self.launches: list[tuple] = []

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            self.launches.append((grid, arguments, options))
            return self if self.compiles else None

        return launch


@pytest.mark.parametrize("compiles", [True, False])
def test_the_second_launch_has_the_numbers_and_constants_of_the_first(compiles: bool) -> None:
    kernel = Kernel(compiles=compiles)
    first, second = torch.zeros(4), torch.ones(4)
    again = launch_and_keep(kernel, (7, 2), (first,), (4, 0.5), {"BLOCK": 128}, num_warps=1)
    assert kernel.launches == [((7, 2), (first, 4, 0.5), {"BLOCK": 128, "num_warps": 1})]
    again(second)
    grid, arguments, options = kernel.launches[1]
    assert arguments[0] is second
    # the compiled form takes constants by position, and a whole grid
    expected = ((7, 2, 1), (4, 0.5, 128), {}) if compiles else ((7, 2), (4, 0.5), {"BLOCK": 128, "num_warps": 1})
    assert (grid, arguments[1:], options) == expected


def test_layouts_differ_where_a_compiled_kernel_would_be_wrong() -> None:
    x = torch.zeros(8, 8)
    layout = describe_layout((x,))
    assert describe_layout((torch.ones(8, 8),)) == layout
    for other in (x.T, x[:4], x.double(), torch.zeros(65)[1:].view(8, 8)):
        assert describe_layout((other,)) != layout


def test_kernels_run_in_the_interpreter_and_on_a_gpu_that_is_new_enough(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    runs = runs_kernels.__wrapped__
    assert not runs("cpu")
    assert runs("cuda") and not runs("cuda", (8, 0))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert runs("cpu")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not runs("cuda")
