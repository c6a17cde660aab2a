"""Learn both networks from spectra at known concentrations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise import Program
from phasewise_studies.spectral_node.flow import draw_flow, take_flow
from phasewise_studies.spectral_node.metric import draw_metric, take_metric
from phasewise_studies.spectral_node.product.spectrum import STEPS
from phasewise_studies.spectral_node.switches import Switches
from phasewise_studies.spectral_node.training import FLOW_RATE, METRIC_RATE, build_training
from phasewise_studies.spectral_node.transitions import all_pairs, make_transitions

# transitions of a wavelength that the fused kernel holds in registers: those of the document's six levels
FUSED = 30


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides a training beside its data."""

    # hidden units of the metric
    widths: tuple[int, int] = (64, 128)
    # learning rates
    metric_rate: float = METRIC_RATE
    flow_rate: float = FLOW_RATE
    seed: int = 0


def choose_switches(transitions: int, device: torch.device) -> Switches:
    """The fastest program that a training of so many transitions has on this device."""
    is_cuda = device.type == "cuda"
    gradient = "fused" if is_cuda and transitions <= FUSED else "closed"
    return Switches(gradient=gradient, fused_adam=is_cuda, graph=is_cuda)


def open_training(
    levels: Tensor, wavelengths: Tensor, settings: Settings, *, device: torch.device, switches: Switches | None = None
) -> Program:
    """A training at its start, over all transitions between `levels` (L,), at `wavelengths` (W,), both in [-1, 1]."""
    generator = torch.Generator().manual_seed(settings.seed)
    drawn = draw_metric(settings.widths, generator) | draw_flow(len(wavelengths), generator)
    dtype = torch.get_default_dtype()
    start = take_metric(drawn, dtype=dtype, device=device) | take_flow(drawn, dtype=dtype, device=device)
    pairs = all_pairs(len(levels))
    transitions = make_transitions(levels, wavelengths, pairs, steps=STEPS, newton=5, dtype=dtype, device=device)
    return build_training(
        switches or choose_switches(len(pairs), device),
        start,
        transitions,
        rates=(settings.metric_rate, settings.flow_rate),
    )


def place_table(program: Program, table: Tensor) -> dict[str, Tensor]:
    """What a step of `open_training` takes: absorbances (L, W)."""
    return program.place({"table": table, "order": torch.arange(len(table) * (len(table) - 1))})


def read_parameters(program: Program) -> dict[str, Tensor]:
    """Both networks, in float64 on the CPU."""
    return {
        name: value.detach().cpu().double()
        for name, value in program.state().items()
        if name.startswith(("metric/", "flow/"))
    }


def fit(
    levels: Tensor,
    wavelengths: Tensor,
    table: Tensor,
    settings: Settings,
    *,
    epochs: int,
    device: torch.device,
    switches: Switches | None = None,
) -> tuple[dict[str, Tensor], list[float]]:
    """Parameters and losses after `epochs` steps over all transitions between `levels` (L,); table (L, W)."""
    program = open_training(levels, wavelengths, settings, device=device, switches=switches)
    placed = place_table(program, table)
    losses = [program.step(placed)["loss"].clone() for _ in range(epochs)]
    return read_parameters(program), torch.stack(losses).tolist()
