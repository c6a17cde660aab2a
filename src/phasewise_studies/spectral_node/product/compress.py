"""Smaller networks for deployment: INT8 weights, fewer hidden units, and a 2-8-8-1 student; each has to hold a gate of its own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.chebyshev import chebyshev_nodes
from phasewise_studies.spectral_node.closed_form import NODES, couple_closed, make_tables
from phasewise_studies.spectral_node.flow import NAMES as FLOW
from phasewise_studies.spectral_node.flow import fold
from phasewise_studies.spectral_node.metric import NAMES as METRIC
from phasewise_studies.spectral_node.metric import draw_metric, evaluate

Parameters = Mapping[str, Tensor]
# largest error of A(1) over its standard deviation that a compressed model may add
GATE = 1e-2
STUDENT = (8, 8)
LARGE = "metric/w2"
SCALE = "metric/w2/scale"
NAMES = frozenset([f"metric/{name}" for name in METRIC] + [f"flow/{name}" for name in FLOW])
# as INT8 it alone leaves 1.06 % at 601 wavelengths: a row has eight numbers, and one rounded badly moves its whole spectrum
EMBEDDING = "flow/embedding"


def quantize(parameters: Parameters) -> tuple[dict[str, Tensor], int]:
    """The network of `encode`, put back into floats; and the bytes of what is stored."""
    stored = encode(parameters)
    return decode(stored), sum(value.numel() * value.element_size() for value in stored.values())


def encode(parameters: Parameters) -> dict[str, Tensor]:
    """The large matrix as INT8 with one scale a row (symmetric), the embedding as float16, the rest as float32.

    The input layers stay in float32: they weigh little, and rounding them too doubles the error.
    """
    matrix = parameters[LARGE]
    scale = (matrix.abs().amax(1, keepdim=True).clamp(min=1e-12) / 127).float()
    codes = (matrix / scale).round().clamp(-127, 127).to(torch.int8)
    return to_single(parameters) | {LARGE: codes, SCALE: scale, EMBEDDING: parameters[EMBEDDING].to(torch.float16)}


def decode(stored: Parameters, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """What `encode` or `to_single` gave, as floats."""
    found = {name: value.to(dtype) for name, value in stored.items() if name != SCALE}
    return found | ({LARGE: found[LARGE] * stored[SCALE].to(dtype)} if SCALE in stored else {})


def to_single(parameters: Parameters) -> dict[str, Tensor]:
    """Both networks in float32, contiguous."""
    return {name: parameters[name].float().contiguous() for name in sorted(NAMES)}


def prune(parameters: Parameters, share: float) -> tuple[dict[str, Tensor], int]:
    """The metric without the `share` of second-layer units that matter least: |w3| times the spread of the unit."""
    points = torch.linspace(-1, 1, 65, dtype=torch.float64)
    c, wave = torch.meshgrid(points, points, indexing="ij")
    first = torch.tanh(torch.stack((c, wave), -1) @ parameters["metric/w1"].T + parameters["metric/b1"])
    units = torch.tanh(first @ parameters["metric/w2"].T + parameters["metric/b2"]).reshape(
        -1, len(parameters["metric/b2"])
    )
    matters = parameters["metric/w3"].abs() * units.std(0)
    kept = matters.argsort(descending=True)[: round(len(matters) * (1 - share))].sort().values
    gone = torch.ones(len(matters), dtype=torch.bool)
    gone[kept] = False
    found = dict(parameters)
    for name in ("metric/w2", "metric/b2", "metric/w3"):
        found[name] = parameters[name][kept]
    # what a removed unit gave on average stays
    found["metric/b3"] = parameters["metric/b3"] + (parameters["metric/w3"] * units.mean(0))[gone].sum()
    return found, 4 * sum(value.numel() for value in found.values())


def distil(parameters: Parameters, *, iterations: int = 120) -> tuple[dict[str, Tensor], int]:
    """A 2-8-8-1 metric fitted to ln g of the large one by L-BFGS."""
    nodes = chebyshev_nodes(24)
    waves = torch.linspace(-1, 1, 25, dtype=torch.float64)
    goal = evaluate(parameters, nodes[None], waves[:, None]).log()
    small = draw_metric(STUDENT, torch.Generator().manual_seed(1))
    weights = {name: value.requires_grad_() for name, value in small.items()}
    optimizer = torch.optim.LBFGS(weights.values(), max_iter=iterations, line_search_fn="strong_wolfe", history_size=30)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (evaluate(weights, nodes[None], waves[:, None]).log() - goal).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    found = dict(parameters) | {name: value.detach() for name, value in weights.items()}
    return found, 4 * sum(value.numel() for value in found.values())


def absorbance_error(parameters: Parameters, other: Parameters, waves: int) -> float:
    """The largest difference of A(1) between two models over all transitions, over the standard deviation of A(1)."""
    levels = data.levels()
    one, two = (axis.reshape(-1) for axis in torch.meshgrid(levels, levels, indexing="ij"))
    start, stop = one[:, None].expand(-1, waves), two[:, None].expand(-1, waves)
    a = data.absorbance(start, data.wavelengths(waves))
    ends = [
        couple_closed(make_tables(p, data.wavelengths(waves), 500, nodes=NODES), fold(p), start, stop, a, 10)[1]
        for p in (parameters, other)
    ]
    return float((ends[0] - ends[1]).abs().max() / ends[0].std())
