"""Spectra at known concentrations as a CSV file, and what must hold of one.

# lines that begin so are comments
glucose_g_per_l,950,950.9,951.8        name of the concentration, then the position of each channel (nm, 1/cm, ...)
0.0,0.484,0.485,0.487                  a concentration, then its absorbances
1.66,0.491,0.490,0.493
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from phasewise.records.errors import UserError

FORM = "a header 'concentration,<channel>,<channel>,...' and a line of numbers for each spectrum"
# a model is learnt from transitions between concentrations; with fewer there is nothing between two of them
FEWEST = 3


@dataclass(frozen=True, kw_only=True)
class SpectraFile:
    """Spectra by rising concentration, all float64: (L,) concentrations, (W,) rising channels, (L, W) absorbances."""

    # what the first column is called
    quantity: str
    concentrations: Tensor
    channels: Tensor
    absorbance: Tensor
    # spectra of the same concentration that were averaged away
    repeats: int = 0

    def thin(self, every: int) -> SpectraFile:
        """Every so many-th channel."""
        return SpectraFile(
            quantity=self.quantity, concentrations=self.concentrations, channels=self.channels[::every].contiguous(),
            absorbance=self.absorbance[:, ::every].contiguous(), repeats=self.repeats,
        )  # fmt: skip


def read_spectra(path: Path) -> SpectraFile:
    """The spectra of a file, by rising concentration and channel; those of the same concentration are averaged.

    Raises:
        UserError: there is no such file, it has another form, or fewer than three concentrations.
    """
    lines = _read_lines(path)
    if len(lines) < 2:
        raise UserError(f"{path}: it holds {len(lines)} lines beside comments; give {FORM}")
    (at, header), rows = lines[0], lines[1:]
    if len(header) < 3:
        raise UserError(f"{path}, line {at}: {len(header)} columns, and no two channels among them; give {FORM}")
    channels = [_parse(path, at, column, text) for column, text in enumerate(header[1:], 2)]
    if len(set(channels)) < len(channels):
        twice = next(value for value in channels if channels.count(value) > 1)
        raise UserError(f"{path}, line {at}: channel {twice:g} is there twice; give each channel one column")
    numbers = []
    for line, row in rows:
        if len(row) != len(header):
            raise UserError(f"{path}, line {line}: {len(row)} columns where the header has {len(header)}; give as many")
        numbers.append([_parse(path, line, column, text) for column, text in enumerate(row, 1)])
    table = torch.tensor(numbers, dtype=torch.float64)
    known, which = table[:, 0].unique(return_inverse=True)
    if len(known) < FEWEST:
        raise UserError(f"{path}: it has {len(known)} different concentrations; give {FEWEST} or more")
    mean = torch.stack([table[which == k, 1:].mean(0) for k in range(len(known))])
    if float(mean.std()) == 0:
        raise UserError(f"{path}: all absorbances are {float(mean[0, 0]):g}; give spectra that differ")
    order = torch.tensor(channels, dtype=torch.float64).sort()
    return SpectraFile(
        quantity=header[0], concentrations=known, channels=order.values, absorbance=mean[:, order.indices].contiguous(),
        repeats=len(table) - len(known),
    )  # fmt: skip


def write_spectra(path: Path, spectra: SpectraFile) -> None:
    """The same form, with seven digits of each absorbance.

    Raises:
        UserError: the folder is not there.
    """
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no such folder; make it first")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([spectra.quantity, *(f"{channel:.10g}" for channel in spectra.channels.tolist())])
        for level, row in zip(spectra.concentrations.tolist(), spectra.absorbance.tolist(), strict=True):
            writer.writerow([f"{level:.10g}", *(f"{value:.7g}" for value in row)])


def _read_lines(path: Path) -> list[tuple[int, Sequence[str]]]:
    """Number and cells of each line that is neither empty nor a comment."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; give a CSV of {FORM}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: it is no text in UTF-8 ({error.reason}); save it as CSV in UTF-8") from error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and line[0] != "#"]
    return [(number, next(csv.reader([line]))) for number, line in lines]


def _parse(path: Path, line: int, column: int, text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{path}, line {line}, column {column}: {text.strip()[:40]!r} is no finite number; give one")
    return value
