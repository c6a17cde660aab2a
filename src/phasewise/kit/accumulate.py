"""Gradient accumulation: the gradients of a large batch from micro-batches that fit into memory.

The mean over a batch is the mean over its micro-batches only if these are equally long. Here each is weighted by its
rows, so that `4 x 5` rows and `5 + 5 + 5 + 3` both give the gradients of one pass, up to rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

Batch = Mapping[str, torch.Tensor]


class Replica(Protocol):
    """A module whose gradients are exchanged, unless it is told not to."""

    def no_sync(self) -> contextlib.AbstractContextManager[Any]: ...


def split(batch: Batch, size: int) -> Iterator[dict[str, torch.Tensor]]:
    """Micro-batches of `size` rows (the last may be shorter) along the first dimension: views, not copies.

    Raises:
        ValueError: `size` is below 1, or the tensors differ in their number of rows.
    """
    if size < 1:
        raise ValueError(f"micro-batch size is {size}; use at least 1")
    total = count_rows(batch)
    for start in range(0, total, size):
        yield {name: tensor[start : start + size] for name, tensor in batch.items()}


def accumulate(
    parts: Iterable[Batch],
    loss: Callable[[Batch], torch.Tensor],
    *,
    backward: Callable[[torch.Tensor], None] = torch.Tensor.backward,
    replicas: Sequence[Replica] = (),
) -> torch.Tensor:
    """Add the gradients of the mean loss over all rows of `parts`; returns that loss, detached.

    `loss(part)` is a mean over the rows of `part`. `backward(scaled_loss)` may put a gradient scaler between. The
    gradients of `replicas` (DistributedDataParallel modules) are exchanged once, with the last part.
    """
    kept = list(parts)
    if not kept:
        raise ValueError("there is no micro-batch; give at least one")
    rows = [count_rows(part) for part in kept]
    total = sum(rows)
    if total == 0:
        raise ValueError("the micro-batches have no rows; give at least one")
    summed: torch.Tensor | None = None
    for index, part in enumerate(kept):
        with contextlib.ExitStack() as stack:
            if index < len(kept) - 1:
                for replica in replicas:
                    stack.enter_context(replica.no_sync())
            share = loss(part) * (rows[index] / total)
            backward(share)
        summed = share.detach() if summed is None else summed + share.detach()
    assert summed is not None, "there is at least one part"
    return summed


def count_rows(batch: Batch) -> int:
    """Length of the first dimension, which all tensors must share."""
    sizes = {name: tensor.shape[0] if tensor.dim() else 0 for name, tensor in batch.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"the tensors of a batch need the same number of rows, found {sizes or 'none'}")
    return next(iter(sizes.values()))
