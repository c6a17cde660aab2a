"""A trained model as one module: concentrations in, spectra out, the networks inside. What `predict` runs and what is exported.

From each of the known concentrations on both sides the flow is carried to the wanted one, and the two ends are blended by closeness,
each without what the flow adds to its known spectrum standing still: at a known concentration that is its own spectrum, and with a
flow of zero it would be the straight line. sqrt(g) along the way comes
from the Chebyshev nodes at which the metric was trained; the integrals are those of closed_form.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise_studies.spectral_node.chebyshev import chebyshev_nodes, coefficient_map
from phasewise_studies.spectral_node.closed_form import integrate_over_concentration
from phasewise_studies.spectral_node.data import Spectra
from phasewise_studies.spectral_node.flow import fold
from phasewise_studies.spectral_node.metric import evaluate
from phasewise_studies.spectral_node.product.compress import decode
from phasewise_studies.spectral_node.transitions import LEARNING_NODES

# RK4 steps over concentration, of a transition
STEPS = 10


class Spectrum(torch.nn.Module):
    """concentration (Q,), as measured -> absorbance (Q, W), as measured; nan beyond the known concentrations.

    Args:
        stored: networks as compress.py stores them: whole, pruned, or with INT8 codes that stay so until they are used.
        known: the spectra from which the flow starts.
        dtype: of the input, the output and all arithmetic.
    """

    def __init__(self, stored: Mapping[str, Tensor], known: Spectra, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.names = tuple(stored)
        for k, tensor in enumerate(stored.values()):
            # float16 and INT8 are how it is stored
            kept = tensor if tensor.dtype in (torch.int8, torch.float16) else tensor.to(dtype)
            self.register_buffer(f"stored_{k}", kept.detach().clone())
        self.register_buffer("levels", known.levels.to(dtype))
        self.register_buffer("table", known.table.to(dtype))
        self.register_buffer("wavelengths", known.wavelengths.to(dtype))
        self.register_buffer("nodes", chebyshev_nodes(LEARNING_NODES).to(dtype))
        self.register_buffer("transform", coefficient_map(LEARNING_NODES).T.to(dtype).contiguous())
        # nodes along a way, and Simpson's weights of them
        count = 2 * STEPS + 1
        self.register_buffer("parts", torch.linspace(0, 1, count, dtype=torch.float64).to(dtype))
        self.register_buffer("weights", _simpson(count).to(dtype))
        self.register_buffer("orders", torch.arange(LEARNING_NODES).to(dtype))
        self.low, self.high, self.mean, self.deviation = known.low, known.high, known.mean, known.deviation

    def forward(self, concentration: Tensor) -> Tensor:
        """Absorbances at those concentrations."""
        wanted = 2 * (concentration - self.low) / (self.high - self.low) - 1
        known = (self.levels[:, None] <= wanted).sum(0)
        right = known.clamp(1.0, float(len(self.levels) - 1)).long()
        left_level, right_level = self.levels[right - 1], self.levels[right]
        # beyond the known ones (as when one is left out) the nearest alone
        part = ((wanted - left_level) / (right_level - left_level)).clamp(0.0, 1.0)[:, None]
        # in one go: from the left, from the right, and each known one standing still
        every = torch.arange(self.levels.shape[0], device=wanted.device)
        count = wanted.shape[0]
        reached = self._carry(torch.cat((right - 1, right, every)), torch.cat((wanted, wanted, self.levels)))
        # A' = f goes on for the whole time where a transition stands still, which no training sees
        drift = reached[2 * count :] - self.table
        left = reached[:count] - (1 - part) * drift[right - 1]
        ahead = reached[count : 2 * count] - part * drift[right]
        found = ((1 - part) * left + part * ahead) * self.deviation + self.mean
        return found.where((wanted.abs() <= 1 + 1e-6)[:, None], math.nan)

    def parameters_in(self) -> dict[str, Tensor]:
        """The networks by name, decoded."""
        stored = {name: getattr(self, f"stored_{k}") for k, name in enumerate(self.names)}
        return decode(stored, self.levels.dtype)

    def _carry(self, level: Tensor, wanted: Tensor) -> Tensor:
        """A at `wanted` (R,) from the known spectra `level` (R,): (R, W)."""
        parameters = self.parameters_in()
        speed = evaluate(parameters, self.nodes[None, :], self.wavelengths[:, None]).sqrt()
        start = self.levels[level]
        # (J, R) concentrations along each way, and sqrt(g) there, (J, R, W)
        path = start + (wanted - start) * self.parts[:, None]
        features = torch.cos(torch.arccos(path.clamp(-1.0, 1.0))[..., None] * self.orders)
        speeds = features @ (speed @ self.transform).T
        # the mean of sqrt(g) over the way: arc length over concentration, also where the way has no length
        mean = (self.weights[:, None, None] * speeds).sum(0)
        way = (wanted - start)[:, None]
        velocities, times, spread = way * mean / speeds, speeds / mean, path[..., None].expand_as(speeds)
        nodes = list(zip(spread.unbind(0), velocities.unbind(0), times.unbind(0), strict=True))
        return integrate_over_concentration(fold(parameters), nodes, self.table[level])


def _simpson(count: int) -> Tensor:
    """Simpson's weights on `count` even points of an interval of length 1."""
    weights = torch.full((count,), 2.0, dtype=torch.float64)
    weights[1::2] = 4
    weights[0] = weights[-1] = 1
    return weights / weights.sum()
