"""What the checks say of themselves: limits found and not assumed, timings with a spread, levels judged apart."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from phasewise import CheckContext
from phasewise_studies.spectral_node import checks, program
from phasewise_studies.spectral_node.checks import gradients, quality
from phasewise_studies.spectral_node.phases import workload
from phasewise_studies.spectral_node.switches import Switches

CPU = torch.device("cpu")


def make_context(case: str, switches: Switches) -> CheckContext:
    shape = workload.cases[case].tiny
    batch = program.make_inputs(case, shape, 0)

    def run(built, given):
        raw = built.step(built.place(given) if built.place else given)
        return dict(built.outputs(raw) if built.outputs else raw)

    return CheckContext(
        build=lambda **changes: program.build(dataclasses.replace(switches, **changes), batch, case, shape, CPU),
        reference=lambda: program.reference(batch, case, shape), run=run,
        inputs=lambda seed: program.make_inputs(case, shape, seed), switches=switches, case=case, shape=shape, device=CPU,
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip


def test_the_largest_batch_is_of_a_training_step_and_a_cap_is_told_as_one() -> None:
    checked = checks.largest_batch(make_context("train", Switches(gradient="closed")))
    assert checked.passed
    assert checked.numbers["largest batch (the cap)"].value == 48
    assert checked.message.startswith(
        "a training step of at least 48 transitions (144 trajectories) fits; sizes tried: 12, 24, 48"
    )


def test_the_largest_batch_is_between_one_that_fits_and_one_that_does_not() -> None:
    context = make_context("train", Switches(gradient="closed"))

    def run(built, given):
        if len(given["order"]) > 30:
            raise torch.OutOfMemoryError("no more")
        return context.run(built, given)

    checked = checks.largest_batch(dataclasses.replace(context, run=run))
    assert checked.passed and checked.numbers["largest batch"].value == 30
    assert "at least" not in checked.message


def test_five_hundred_epochs_have_the_bounds_of_their_blocks() -> None:
    found = checks.five_hundred_epochs(make_context("train", Switches(gradient="closed"))).numbers[
        "seconds of 500 epochs"
    ]
    assert 0 < found.low < found.value < found.high


@pytest.mark.parametrize("phase", [phase for phase in workload.phases if phase.risks], ids=lambda phase: phase.name)
def test_every_risk_is_checked_in_every_case_of_its_phase(phase) -> None:
    named = {check.name: check.cases or tuple(workload.cases) for check in workload.checks}
    for risk in phase.risks:
        assert set(phase.cases) <= set(named.get(risk.check, workload.cases)), risk.title


@pytest.mark.parametrize(("check", "case"), [("closed_form_agrees", "transitions"), ("invariant", "couple")])
def test_a_check_holds_in_the_case_that_its_risk_names(check: str, case: str) -> None:
    checked = getattr(checks, check)(make_context(case, Switches(form="closed")))
    assert checked.passed, checked.message


def test_overflows_have_a_place_in_the_report() -> None:
    checked = checks.overflow_is_counted(make_context("train", Switches(gradient="closed")))
    assert checked.passed, checked.message
    assert {name: number.value for name, number in checked.numbers.items()} == {
        "overflows from 2^16": 0,
        "overflows from 2^40": 1,
    }


def test_every_level_that_is_left_out_has_a_score_of_its_own(monkeypatch) -> None:
    monkeypatch.setattr(quality, "FEW_EPOCHS", 2)
    checked = checks.leave_one_out(make_context("train", Switches(gradient="closed")))
    for level in (0, 10, 20, 30):
        for way in ("", ", straight line", ", spline"):
            assert f"MSE, synthetic{way}, {level} ppb" in checked.numbers
    assert "between known concentrations it" in checked.message and "beyond them it" in checked.message


def test_gradients_are_compared_over_the_whole_case_on_a_gpu_and_over_a_part_elsewhere(monkeypatch) -> None:
    context = make_context("train", Switches(gradient="closed"))
    checked = checks.gradients_agree(context)
    assert checked.passed and checked.message.startswith("6 transitions x 5 wavelengths: cosines adjoint 1.0")
    # as on a GPU, with the arithmetic on this CPU
    find = gradients.find_gradients
    monkeypatch.setattr(gradients, "find_gradients", lambda loss, **more: find(loss, **{**more, "device": CPU}))
    checked = checks.gradients_agree(dataclasses.replace(context, device=torch.device("cuda")))
    assert checked.passed and checked.message.startswith("12 transitions x 3 wavelengths: cosines adjoint 1.0")


def test_what_the_document_proposes_is_timed_beside_the_same_without_it() -> None:
    checked = checks.proposals_measured(make_context("christoffel", Switches(form="batched", gamma="tangent")))
    assert checked.passed and set(checked.numbers) == {"time, GroupNorm"}
    ratio = checked.numbers["time, GroupNorm"]
    assert 0 < ratio.low <= ratio.value <= ratio.high


@pytest.mark.gpu
def test_on_a_gpu_all_three_proposals_are_timed() -> None:
    context = dataclasses.replace(
        make_context("christoffel", Switches(form="batched", gamma="tangent")), device=torch.device("cuda")
    )
    checked = checks.proposals_measured(context)
    assert checked.passed, checked.message
    assert set(checked.numbers) == {
        "time, GroupNorm",
        "time, bias and softplus, of the whole evaluation",
        "time, the same in one kernel",
        "time, a memory pool",
    }
