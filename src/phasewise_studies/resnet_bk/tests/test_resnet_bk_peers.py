"""The skeleton with another mixer: what is trained, and that the mixer alone is another."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from phasewise import Program, Shape
from phasewise_studies.resnet_bk import peers, program
from phasewise_studies.resnet_bk.model import Ways, make_model
from phasewise_studies.resnet_bk.reference import parameters_in
from phasewise_studies.resnet_bk.tests.resnet_bk_cases import CAUSAL, CPU, run_steps


class MeanSoFar(nn.Module):
    """A causal mixer with a weight, in the form of the library's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(CAUSAL.width))

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        count = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return self.weight * x.cumsum(1) / count, None


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return torch.zeros_like(x), None


def test_the_skeleton_trains_with_another_mixer() -> None:
    mixers: list[MeanSoFar] = []

    def make() -> MeanSoFar:
        mixers.append(MeanSoFar())
        return mixers[-1]

    inputs = program.make_inputs("causal", CAUSAL, 0)
    built = peers.train_with(make, inputs, CAUSAL, CPU)
    placed = built.place(inputs)
    losses = [float(built.step(placed)["loss"]) for _ in range(20)]
    assert len(mixers) == CAUSAL.layers and losses[-1] < losses[0] - 0.1
    assert all((mixer.weight.detach() != 1).all() for mixer in mixers)


def test_but_for_the_mixer_it_is_our_model() -> None:
    """Where neither model mixes, both give the same loss."""
    inputs = program.make_inputs("causal", CAUSAL, 0)
    parameters = parameters_in(inputs)
    for name in [name for name in parameters if ".mix." in name]:
        parameters[name] = torch.zeros_like(parameters[name])
    ours = make_model(program.sizes_of(CAUSAL), Ways(), parameters, CPU)
    wanted = ours(inputs["tokens"], inputs["targets"], inputs["keep"]).detach()
    built = peers.train_with(Nothing, inputs, CAUSAL, CPU)
    assert float(built.step(built.place(inputs))["loss"]) == pytest.approx(float(wanted), rel=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gated_deltanet", "gated_linear_attention"])
def test_on_a_gpu_the_library_layers_train(name: str) -> None:
    pytest.importorskip("fla", reason="needs flash-linear-attention (pip install flash-linear-attention)")
    shape = Shape(**{**CAUSAL, "width": 64, "length": 128})
    inputs = program.make_inputs("causal", shape, 0)
    built: Program = getattr(peers, name)(inputs, "causal", shape, torch.device("cuda"))
    found = run_steps(built, 3, shape, "causal")
    assert all(torch.isfinite(torch.tensor(list(step.values()))).all() for step in found)
