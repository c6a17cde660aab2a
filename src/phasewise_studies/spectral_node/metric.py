"""The metric network g(c, l) and its Christoffel symbol, by finite differences and by an exact tangent.

Legend: c in [-1, 1] is the concentration, l in [-1, 1] the wavelength; g > 0 is a Riemannian metric on the line of
concentrations, one for each wavelength. Gamma = 1/2 d/dc ln g.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from phasewise_studies.spectral_node.switches import Switches

Parameters = Mapping[str, Tensor]

# g = softplus(.) + FLOOR stays away from 0 (the user's document, cell 5: "small constant to denominator")
FLOOR = 0.1
# half-width of a finite difference: the user's document, cell 5; only float64 stands it
DIFFERENCE = 1e-4
NAMES = ("w1", "b1", "w2", "b2", "w3", "b3")


def draw_metric(widths: tuple[int, int], generator: torch.Generator) -> dict[str, Tensor]:
    """Float64 parameters of a 2-H1-H2-1 network whose metric bends: g runs over about a decade."""
    first, second = widths

    def draw(*size: int, scale: float) -> Tensor:
        return scale * torch.randn(*size, dtype=torch.float64, generator=generator)

    return {
        "metric/w1": draw(first, 2, scale=0.8),
        "metric/b1": draw(first, scale=0.5),
        "metric/w2": draw(second, first, scale=1.2 / first**0.5),
        "metric/b2": draw(second, scale=0.3),
        "metric/w3": draw(second, scale=1.5 / second**0.5),
        "metric/b3": torch.tensor(0.7, dtype=torch.float64),
    }


def take_metric(parameters: Parameters, *, dtype: torch.dtype, device: torch.device) -> dict[str, Tensor]:
    """The metric's own parameters, cast and moved."""
    return {f"metric/{name}": parameters[f"metric/{name}"].to(device, dtype) for name in NAMES}


def _inputs(c: Tensor, wavelength: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(c, wavelength), dim=-1)


def evaluate(metric: Parameters, c: Tensor, wavelength: Tensor) -> Tensor:
    """g(c, l) for tensors that broadcast."""
    hidden = functional.linear(_inputs(c, wavelength), metric["metric/w1"], metric["metric/b1"]).tanh()
    hidden = functional.linear(hidden, metric["metric/w2"], metric["metric/b2"]).tanh()
    return functional.softplus(_last(hidden, metric)) + FLOOR


def evaluate_tangent(metric: Parameters, c: Tensor, wavelength: Tensor) -> tuple[Tensor, Tensor]:
    """g and dg/dc: the tangent is carried through the layers beside the value, tanh' = 1 - tanh^2."""
    w1, w2 = metric["metric/w1"], metric["metric/w2"]
    hidden = functional.linear(_inputs(c, wavelength), w1, metric["metric/b1"]).tanh()
    slope = (1 - hidden * hidden) * w1[:, 0]
    hidden = functional.linear(hidden, w2, metric["metric/b2"]).tanh()
    slope = (1 - hidden * hidden) * functional.linear(slope, w2)
    z = _last(hidden, metric)
    return functional.softplus(z) + FLOOR, torch.sigmoid(z) * (slope * metric["metric/w3"]).sum(-1)


def evaluate_curvature(metric: Parameters, c: Tensor, wavelength: Tensor) -> tuple[Tensor, Tensor]:
    """g and d2g/dc2, by carrying two tangents: (tanh z)'' = (1 - tanh^2)(z'' - 2 tanh z'^2)."""
    w1, w2, w3 = metric["metric/w1"], metric["metric/w2"], metric["metric/w3"]
    hidden = functional.linear(_inputs(c, wavelength), w1, metric["metric/b1"]).tanh()
    gain, first = 1 - hidden * hidden, w1[:, 0]
    # z'' is 0 in the first layer
    slope, bend = gain * first, -2 * gain * hidden * first * first
    hidden = functional.linear(hidden, w2, metric["metric/b2"]).tanh()
    gain, first, second = 1 - hidden * hidden, functional.linear(slope, w2), functional.linear(bend, w2)
    slope, bend = gain * first, gain * (second - 2 * hidden * first * first)
    z = _last(hidden, metric)
    first, second, sigmoid = (slope * w3).sum(-1), (bend * w3).sum(-1), torch.sigmoid(z)
    return functional.softplus(z) + FLOOR, sigmoid * (second + (1 - sigmoid) * first * first)


def christoffel_tangent(metric: Parameters, c: Tensor, wavelength: Tensor) -> Tensor:
    """Gamma = g_c / (2 g), exact."""
    g, slope = evaluate_tangent(metric, c, wavelength)
    return 0.5 * slope / g


def christoffel_difference(
    metric: Parameters, c: Tensor, wavelength: Tensor, *, step: float = DIFFERENCE, autocast: torch.dtype | None = None
) -> Tensor:
    """Gamma = (g+ - g-)/(4 step g), with g at c - step, c and c + step from one pass.

    `autocast` runs the pass as torch.autocast in that dtype would: for the demonstration that it must not.
    """
    with torch.autocast(c.device.type, autocast or torch.bfloat16, enabled=autocast is not None):
        below, g, above = evaluate(metric, torch.stack((c - step, c, c + step)), wavelength)
    return ((above - below) / (4 * step * g)).to(c.dtype)


def differ(switches: Switches, metric: Parameters, wavelengths: Tensor) -> Callable[[Tensor], Tensor]:
    """Gamma by finite differences, in the precision that the switch says; the result has the dtype of c."""
    if switches.difference == "float64":
        return lambda c: christoffel_difference(metric, c.double(), wavelengths).to(c.dtype)
    autocast = torch.bfloat16 if switches.difference == "bfloat16" else None
    single = {name: value.float() for name, value in metric.items()}
    return lambda c: christoffel_difference(single, c.float(), wavelengths.float(), autocast=autocast).to(c.dtype)


def _last(hidden: Tensor, metric: Parameters) -> Tensor:
    return functional.linear(hidden, metric["metric/w3"][None], metric["metric/b3"][None])[..., 0]
