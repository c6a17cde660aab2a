"""What a step amounts to by count, which has no noise: operators, and the elements that they read and write."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from phasewise.bench.stepper import Bench
from phasewise.bench.timing import wait_for

# operators that give memory and leave it as it is
ALLOCATIONS = ("aten::empty", "aten::new_empty")


@dataclass(frozen=True, kw_only=True)
class CountedWork:
    """What steps do through PyTorch; other code is not counted."""

    operators: int
    # of all tensors that operators took and gave, but for views and for memory that is only allocated
    elements: int


class OperatorWatch(TorchDispatchMode):
    """Names of the operators that run under it, and the elements of all tensors that they took and gave, as `CountedWork` has it."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []
        self.elements = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled in `watch_operators`; torch would import its compiler to say so, which takes most of a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.operators.append(func.name().partition(".")[0])
        # neither a view nor an allocation touches anything
        if not func.is_view and not self.operators[-1].startswith(ALLOCATIONS):
            leaves = tree_leaves((args, kwargs, found))
            self.elements += sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
        return found


def run_as_written() -> contextlib.AbstractContextManager[Any]:
    """Compiled code runs as it was written meanwhile: inside a compiled program no operator is seen."""
    is_compiler_there = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if is_compiler_there else contextlib.nullcontext()


@contextlib.contextmanager
def watch_operators() -> Iterator[OperatorWatch]:
    """Watch what runs meanwhile, as it was written."""
    with run_as_written(), OperatorWatch() as watch:
        yield watch


def count_work(bench: Bench, steps: int = 1) -> CountedWork:
    """Count `steps` steps from the initial state and the first batch."""
    bench.restore()
    with watch_operators() as watch:
        for index in range(steps):
            bench.step(index)
    wait_for(bench)
    return CountedWork(operators=len(watch.operators), elements=watch.elements)
