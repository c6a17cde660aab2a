"""What a step amounts to, by count: operators, and the elements that they read and write. A count knows no noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from phasewise.bench.stepper import Bench
from phasewise.bench.timing import wait_for


@dataclass(frozen=True, kw_only=True)
class Work:
    """Of steps; of code that does not go through PyTorch, nothing."""

    operators: int
    # of all tensors that operators took and gave, but for views
    elements: int


class _Count(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators = 0
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.operators += 1
        # a view touches nothing
        if not func.is_view:
            leaves = tree_leaves((args, kwargs, found))
            self.elements += sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
        return found


def count_work(bench: Bench, steps: int = 1) -> Work:
    """Count so many steps from the initial state and the first batch on."""
    bench.restore()
    with _Count() as count:
        for index in range(steps):
            bench.step(index)
    wait_for(bench)
    return Work(operators=count.operators, elements=count.elements)
