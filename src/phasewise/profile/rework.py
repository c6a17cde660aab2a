"""Work that a step does more than once: the same operator on the same tensors, unchanged in between.

One step is run under a dispatch mode that numbers what each storage holds: whatever an operator writes or allocates gets a fresh
number, views keep theirs. Two calls of a deterministic operator with equal numbers, views and scalars computed the same thing.
Writes by kernels that torch does not dispatch (Triton, CuPy) are not seen, so a step that runs such kernels is not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from phasewise.profile.names import is_bookkeeping
from phasewise.records.profile import Operator

# a repeated operator on less than this is not worth keeping the result of
LEAST_ELEMENTS = 64


class Rework(TorchDispatchMode):
    """Counts calls by operator and shapes whose result was there already."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated: Counter[tuple[str, str]] = Counter()
        # address of a storage -> number of what it holds
        self._contents: dict[int, int] = {}
        self._seen: set[tuple[Any, ...]] = set()
        self._next = 0

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().split(".")[0]
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        key = None
        if self._counts(func, name, inputs):
            key = (func.name(), *(self._describe(leaf) for leaf in tree_leaves((args, kwargs))))
        result = func(*args, **kwargs)
        self._renumber(func, args, kwargs, result)
        if key is not None:
            if key in self._seen:
                self.repeated[name, " ".join(_shape(tensor) for tensor in inputs)] += 1
            self._seen.add(key)
        return result

    def _counts(self, func: Any, name: str, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether an equal call would be wasted: deterministic, writes nothing, computes something of some size."""
        if is_bookkeeping(name) or torch.Tag.nondeterministic_seeded in func.tags or func._schema.is_mutable:
            return False
        return any(tensor.numel() >= LEAST_ELEMENTS for tensor in inputs)

    def _describe(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return str(leaf)
        address = leaf.untyped_storage().data_ptr()
        if address not in self._contents:
            self._contents[address] = self._fresh()
        return self._contents[address], leaf.storage_offset(), tuple(leaf.shape), leaf.stride(), leaf.dtype

    def _renumber(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        """Fresh numbers for what was written or allocated; a view of an input keeps its number."""
        known = {
            leaf.untyped_storage().data_ptr() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                address = leaf.untyped_storage().data_ptr()
                if address not in known or func._schema.is_mutable:
                    self._contents[address] = self._fresh()
        if func._schema.is_mutable:
            for address in known:
                self._contents[address] = self._fresh()

    def _fresh(self) -> int:
        self._next += 1
        return self._next


def price_rework(repeated: Counter[tuple[str, str]], operators: Sequence[Operator]) -> tuple[float, str, float]:
    """Repeated calls, the operator in which they cost most, and the seconds of all: each at the traced mean of its shapes.

    On a device an operator's cost is what it ran there, on a CPU its own time.
    """
    on_device = any(row.device_s for row in operators)
    costs = {
        (row.name, row.shapes): (row.device_s if on_device else row.self_s) / row.calls
        for row in operators
        if row.calls
    }
    spent: Counter[str] = Counter()
    for (name, shapes), calls in repeated.items():
        spent[name] += calls * costs.get((name, shapes), 0.0)  # type: ignore[assignment]
    heaviest = max(spent, key=lambda name: (spent[name], name), default="")
    return float(sum(repeated.values())), heaviest, float(sum(spent.values()))


def _shape(tensor: torch.Tensor) -> str:
    """As `operators.describe_inputs` writes it."""
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]"
