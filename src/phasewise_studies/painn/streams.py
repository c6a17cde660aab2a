"""Parts of a batch on streams of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from phasewise_studies.painn.data import Batch


def split_systems(batch: Batch, parts: int) -> list[Batch]:
    """The systems of a batch in `parts` batches of like numbers of systems; fewer where there are not enough."""
    starts = batch["start"].tolist()
    systems = len(starts) - 1
    bounds = sorted({round(part * systems / min(parts, systems)) for part in range(min(parts, systems) + 1)})
    return [_cut(batch, first, last) for first, last in itertools.pairwise(bounds)]


def _cut(batch: Batch, first: int, last: int) -> Batch:
    """Systems `first` to `last - 1`."""
    begin, end = int(batch["start"][first]), int(batch["start"][last])
    cut = {name: tensor[begin:end] for name, tensor in batch.items() if name not in ("start", "cell", "system")}
    cut["system"] = batch["system"][begin:end] - first
    cut["start"] = batch["start"][first : last + 1] - begin
    if "cell" in batch:
        cut["cell"] = batch["cell"][first:last]
    return cut


def run_on_streams(steps: Sequence[Callable[[Any], Any]], device: torch.device) -> Callable[[Sequence[Any]], list[Any]]:
    """A step that runs part k with `steps[k]` on stream k, and waits for all; one after the other without a GPU."""
    if device.type != "cuda":
        return lambda placed: [step(part) for step, part in zip(steps, placed, strict=True)]
    streams = [torch.cuda.Stream(device) for _ in steps]

    def step(placed: Sequence[Any]) -> list[Any]:
        current = torch.cuda.current_stream(device)
        found = []
        for call, part, stream in zip(steps, placed, streams, strict=True):
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                found.append(call(part))
        for stream in streams:
            current.wait_stream(stream)
        # what a graph returns stays where it is
        for part in () if torch.cuda.is_current_stream_capturing() else found:
            for tensor in part.values():
                # the allocator must not hand it out to a part's stream while the caller reads it
                tensor.record_stream(current)
        return found

    return step
