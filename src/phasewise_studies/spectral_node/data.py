"""Spectra: a synthetic table with known curves, and real ones of glucose in a fermentation broth.

Concentrations run from 0 to 60 ppb as c = (ppb - 30)/30, wavelengths from 200 to 800 nm as l = (nm - 500)/300.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.spectral_node.spectra_file import SpectraFile, read_spectra

# the user's document: 6 concentrations
LEVELS_PPB = (0.0, 10.0, 20.0, 30.0, 40.0, 60.0)
NOISE = 1e-3
# three bands: centre, width in l; absorbance of each is a + b c + d c^2, so that the table is not monotone in c
BANDS = ((-0.55, 0.18), (0.05, 0.25), (0.6, 0.15))
AMPLITUDES = ((0.8, 0.35, -0.25), (0.5, -0.3, 0.4), (0.3, 0.25, 0.2))
# a saturating shift of the bands with c
SHIFT = 0.08
REAL = Path(__file__).parent / "glucose.csv"


def levels(count: int = len(LEVELS_PPB)) -> Tensor:
    """The first `count` concentrations, in [-1, 1]: (count,) float64.

    Raises:
        UserError: there are not so many.
    """
    if not 1 <= count <= len(LEVELS_PPB):
        raise UserError(f"spectral_node: levels={count} is not allowed; give 1 to {len(LEVELS_PPB)}")
    return torch.tensor(LEVELS_PPB[:count], dtype=torch.float64) / 30 - 1


def wavelengths(count: int) -> Tensor:
    """Evenly from -1 to 1; the middle for one."""
    return torch.linspace(-1, 1, count, dtype=torch.float64) if count > 1 else torch.zeros(1, dtype=torch.float64)


def absorbance(c: Tensor, wavelength: Tensor) -> Tensor:
    """The synthetic A(c, l) without noise, for tensors that broadcast."""
    moved = wavelength - SHIFT * torch.tanh(2 * c)
    total = torch.zeros(torch.broadcast_shapes(c.shape, wavelength.shape), dtype=torch.float64)
    for (centre, width), (a, b, d) in zip(BANDS, AMPLITUDES, strict=True):
        total = total + (a + b * c + d * c * c) * torch.exp(-(((moved - centre) / width) ** 2) / 2)
    return total


def synthetic_table(count: int, waves: int, generator: torch.Generator) -> Tensor:
    """(count, waves) absorbances of the first levels, with noise."""
    clean = absorbance(levels(count)[:, None], wavelengths(waves))
    return clean + NOISE * torch.randn(count, waves, dtype=torch.float64, generator=generator)


@dataclass(frozen=True)
class Spectra:
    """Spectra as networks take them: (L,) concentrations and (W,) channels in [-1, 1], (L, W) absorbances of mean 0 and deviation 1."""

    levels: Tensor
    wavelengths: Tensor
    table: Tensor
    # what undoes it: least and largest concentration, mean and deviation of the absorbance
    low: float
    high: float
    mean: float
    deviation: float

    def scale(self, concentrations: Tensor) -> Tensor:
        """Concentrations in [-1, 1]."""
        return _spread(concentrations, self.low, self.high)

    def restore(self, table: Tensor) -> Tensor:
        """Absorbances as they were measured."""
        return table * self.deviation + self.mean


def normalise(file: SpectraFile) -> Spectra:
    """The spectra of a file as networks take them."""
    low, high = float(file.concentrations[0]), float(file.concentrations[-1])
    mean, deviation = float(file.absorbance.mean()), float(file.absorbance.std())
    first, last = float(file.channels[0]), float(file.channels[-1])
    return Spectra(
        _spread(file.concentrations, low, high), _spread(file.channels, first, last), (file.absorbance - mean) / deviation,
        low, high, mean, deviation,
    )  # fmt: skip


def _spread(values: Tensor, low: float, high: float) -> Tensor:
    return 2 * (values - low) / (high - low) - 1


def load_real() -> Spectra:
    """21 infrared spectra of a fermentation with 0 to 38 g/L of glucose, 950 to 1500 1/cm, on 601 channels; float64."""
    return normalise(read_spectra(REAL))


def interpolate_linear(known: Tensor, table: Tensor, wanted: Tensor) -> Tensor:
    """Straight lines between the two nearest known levels (outside, through the last two): what any model has to beat."""
    right = torch.searchsorted(known, wanted).clamp(1, len(known) - 1)
    part = ((wanted - known[right - 1]) / (known[right] - known[right - 1]))[:, None]
    return table[right - 1] + part * (table[right] - table[right - 1])


def interpolate_spline(known: Tensor, table: Tensor, wanted: Tensor) -> Tensor:
    """The cubic spline through all known levels, not-a-knot at both ends (of lower degree through three or fewer)."""
    from scipy.interpolate import make_interp_spline

    spline = make_interp_spline(known.numpy(), table.numpy(), k=min(3, len(known) - 1))
    return torch.from_numpy(spline(wanted.numpy()))
