"""Learn both networks from spectra at known concentrations, and predict spectra at others."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.closed_form import cast, couple_closed, make_tables
from phasewise_studies.spectral_node.flow import draw_flow, fold, take_flow
from phasewise_studies.spectral_node.metric import draw_metric, take_metric
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.training import build_training
from phasewise_studies.spectral_node.transitions import all_pairs, make_transitions

# over concentration, of a transition
STEPS = 10


def fit(
    levels: Tensor, table: Tensor, switches: Switches, *, widths: tuple[int, int], epochs: int, device: torch.device
) -> tuple[dict[str, Tensor], list[float]]:
    """Parameters and losses after `epochs` steps over all transitions between `levels`; table (L, W)."""
    generator = torch.Generator().manual_seed(0)
    waves = table.shape[1]
    drawn = draw_metric(widths, generator) | draw_flow(waves, generator)
    dtype = torch.get_default_dtype()
    start = take_metric(drawn, dtype=dtype, device=device) | take_flow(drawn, dtype=dtype, device=device)
    pairs = all_pairs(len(levels))
    transitions = make_transitions(
        levels, data.wavelengths(waves), pairs, steps=STEPS, newton=5, dtype=dtype, device=device
    )
    program = build_training(switches, start, transitions)
    placed = program.place({"table": table, "order": torch.arange(len(pairs))})
    losses = [program.step(placed)["loss"].clone() for _ in range(epochs)]
    state = program.state()
    return {name: state[name].detach().cpu().double() for name in start}, torch.stack(losses).tolist()


def predict_spectra(parameters: dict[str, Tensor], levels: Tensor, table: Tensor, wanted: Tensor) -> Tensor:
    """Spectra at the concentrations `wanted` (Q,): from the two nearest known levels, weighted by closeness; (Q, W)."""
    cpu = torch.device("cpu")
    tables = cast(make_tables(parameters, data.wavelengths(table.shape[1]), 500), torch.float64, cpu)
    flow = fold(take_flow(parameters, dtype=torch.float64, device=cpu))
    distance = (wanted[:, None] - levels).abs()
    near = distance.topk(2, largest=False)
    weight = 1 / near.values.clamp(min=1e-9)
    weight = weight / weight.sum(1, keepdim=True)
    total = torch.zeros(len(wanted), table.shape[1], dtype=torch.float64)
    for k in range(2):
        start = levels[near.indices[:, k]][:, None].expand_as(total)
        stop = wanted[:, None].expand_as(total)
        _, reached = couple_closed(tables, flow, start, stop, table[near.indices[:, k]], STEPS)
        total += weight[:, k, None] * reached
    return total
