"""Own data: rows of tokens, targets and values, dealt into batches that follow from a seed and the number of the window alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.lior.data import BATCH
from phasewise_studies.lior.product.files import check_tensor, read_tensors
from phasewise_studies.lior.window import COORDINATES


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """float32 on the CPU: tokens and targets (N, 8), values (N, d)."""

    rows: dict[str, Tensor]
    batch: int
    seed: int

    @property
    def windows(self) -> int:
        """Windows of an epoch. Rows that fill no batch wait for the next epoch, which deals in another order."""
        return len(self.rows["tokens"]) // self.batch

    def deal(self, window: int) -> dict[str, Tensor]:
        """The batch of a window, counted from the first epoch on."""
        epoch, place = divmod(window, self.windows)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
        order = torch.randperm(len(self.rows["tokens"]), generator=generator)
        chosen = order[place * self.batch : (place + 1) * self.batch]
        return {name: tensor[chosen] for name, tensor in self.rows.items()}

    def place(self, first: int, end: int, device: torch.device) -> Iterator[dict[str, Tensor]]:
        """The batches of windows `first` to `end`, on the device."""
        for window in range(first, end):
            yield {name: tensor.to(device) for name, tensor in self.deal(window).items()}


def read_dataset(path: Path, batch: int, seed: int) -> Dataset:
    """`tokens`, `targets` and `values` of a file.

    :raises UserError: one is missing, has another length, another width or a number that is none, or there are too few rows
    """
    found = read_tensors(path)
    missing = [name for name in BATCH if name not in found]
    if missing:
        has = ", ".join(sorted(found)) or "nothing"
        raise UserError(f"{path}: {', '.join(missing)} missing, it has {has}; training needs {', '.join(BATCH)}.")
    widths: dict[str, int | str] = {"tokens": COORDINATES, "targets": COORDINATES, "values": "d"}
    rows = {name: check_tensor(path, name, found[name], ("N", widths[name])) for name in BATCH}
    lengths = {name: len(tensor) for name, tensor in rows.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UserError(f"{path}: the rows have to be as many of each, and are {told}.")
    if lengths["tokens"] < batch:
        raise UserError(
            f"{path}: {lengths['tokens']} rows fill no batch of {batch}; set --batch_size {max(lengths['tokens'], 1)} or less, or give more rows."
        )
    return Dataset(rows=rows, batch=batch, seed=seed)
