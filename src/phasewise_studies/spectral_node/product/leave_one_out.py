"""Each known concentration left out once: the model that never saw it, against a straight line and a spline through the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise_studies.spectral_node.data import Spectra, interpolate_linear, interpolate_spline
from phasewise_studies.spectral_node.product.compress import NAMES
from phasewise_studies.spectral_node.product.fit import Settings, fit
from phasewise_studies.spectral_node.product.spectrum import Spectrum
from phasewise_studies.spectral_node.switches import Switches

WAYS = ("model", "line", "spline")


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """One concentration, predicted by each of `WAYS` from the others; scaled as the networks see it."""

    index: int
    # known concentrations lie on both sides
    within: bool
    # (W,) each
    predicted: dict[str, Tensor]
    losses: tuple[float, ...]

    def errors(self, truth: Tensor) -> dict[str, float]:
        """Mean squared error of each way against (W,)."""
        return {way: float((found - truth).square().mean()) for way, found in self.predicted.items()}


def predict_spectra(parameters: dict[str, Tensor], known: Spectra, wanted: Tensor) -> Tensor:
    """Scaled spectra (Q, W) at scaled concentrations (Q,), also beyond the known ones; float64."""
    unscaled = replace(known, low=-1.0, high=1.0, mean=0.0, deviation=1.0)
    stored = {name: parameters[name] for name in sorted(NAMES)}
    return Spectrum(stored, unscaled, dtype=torch.float64)(wanted)


def leave_out(
    spectra: Spectra, settings: Settings, *, epochs: int, device: torch.device, switches: Switches | None = None
) -> Iterator[LeftOut]:
    """One model after the other, each without one of the concentrations."""
    count = len(spectra.levels)
    for k in range(count):
        kept = torch.tensor([i for i in range(count) if i != k])
        known = replace(spectra, levels=spectra.levels[kept], table=spectra.table[kept])
        parameters, losses = fit(
            known.levels, known.wavelengths, known.table, settings, epochs=epochs, device=device, switches=switches
        )
        wanted = spectra.levels[k : k + 1]
        yield LeftOut(
            index=k,
            within=0 < k < count - 1,
            predicted={
                "model": predict_spectra(parameters, known, wanted)[0],
                "line": interpolate_linear(known.levels, known.table, wanted)[0],
                "spline": interpolate_spline(known.levels, known.table, wanted)[0],
            },
            losses=tuple(losses),
        )
