"""What a loop says of its own tokens is held to float64, and the state after a step to that of the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from phasewise.bench.case import fill_defaults
from phasewise_studies.polychromic import checks, program, teacher_forcing
from phasewise_studies.polychromic.phases import workload
from phasewise_studies.polychromic.switches import EVERYTHING, GRAPHED, Switches
from phasewise_studies.polychromic.tests.test_polychromic_program import make_context
from phasewise_studies.polychromic.variants.generation import Generator

CPU = torch.device("cpu")


@pytest.mark.parametrize("switches", [{}, {"batching": "window", "half": True, "sdpa": True}, GRAPHED, EVERYTHING])
def test_the_log_probabilities_of_every_loop_are_as_good_as_a_plain_pass(switches: dict) -> None:
    found = checks.log_probabilities(make_context("decode", switches))
    assert found.passed, found.message


@pytest.mark.parametrize(("switches", "wrong"), [({}, 2e-3), (GRAPHED, 0.02), (GRAPHED, float("nan"))])
def test_log_probabilities_that_are_a_little_off_are_noticed(
    monkeypatch: pytest.MonkeyPatch, switches: dict, wrong: float
) -> None:
    make = teacher_forcing.make_generator

    def make_wrong(*given) -> Generator:
        right = make(*given)

        def generate(*batch):
            drawn = right.generate(*batch)
            half = given[1].embed_VD.dtype is torch.bfloat16 or not switches
            return replace(drawn, log_probabilities_RT=drawn.log_probabilities_RT + wrong * half)

        return Generator(generate=generate)

    monkeypatch.setattr(teacher_forcing, "make_generator", make_wrong)
    assert not checks.log_probabilities(make_context("decode", switches)).passed


@pytest.mark.parametrize("case", ["train-step", "micro-step"])
def test_the_state_after_a_step_is_that_of_the_reference(case: str) -> None:
    shape = workload.cases[case].tiny
    batch = program.make_inputs(case, shape, 0)
    exact = fill_defaults(program.reference(batch, case, shape), CPU, torch.float64)
    built = fill_defaults(program.build(Switches(), batch, case, shape, CPU), CPU)
    for one in (exact, built):
        one.step(one.place(batch))
    wanted, found = exact.state(), built.state()
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.allclose(found[name].double(), tensor.double(), atol=1e-5), name


def test_the_document_s_own_loss_trains_other_adapters_than_the_tier_allows() -> None:
    shape = workload.cases["train-step"].tiny
    batches = [program.make_inputs("train-step", shape, seed) for seed in range(2)]
    exact = fill_defaults(program.reference(batches[0], "train-step", shape), CPU, torch.float64)
    built = fill_defaults(program.build(Switches(mode="faithful"), batches[0], "train-step", shape, CPU), CPU)
    for one in (exact, built):
        for batch in batches:
            one.step(one.place(batch))
    allowed = workload.tiers["moderate"]
    wanted, found = exact.state(), built.state()
    for name in ("lora", "grad/lora"):
        assert not torch.allclose(found[name].double(), wanted[name], rtol=allowed.rtol, atol=allowed.atol), name


def test_a_reference_begins_anew_when_its_state_is_loaded() -> None:
    shape = workload.cases["micro-step"].tiny
    exact = program.reference(program.make_inputs("micro-step", shape, 0), "micro-step", shape)
    before = exact.state()
    exact.step(program.make_inputs("micro-step", shape, 0))
    assert not torch.equal(exact.state()["lora"], before["lora"])
    exact.load(before)
    assert torch.equal(exact.state()["lora"], before["lora"])
