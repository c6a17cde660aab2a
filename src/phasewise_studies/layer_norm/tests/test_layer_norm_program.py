"""The workload: what is planned, every phase through the gate at `tiny` on the CPU, and the reference against autograd."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from phasewise import Shape
from phasewise.environment import detect
from phasewise.model.configuration import read_configuration
from phasewise.plan import plan_runs
from phasewise.records.validate import Outcome
from phasewise.validate.case import validate_case
from phasewise_studies.layer_norm import program
from phasewise_studies.layer_norm.phases import workload
from phasewise_studies.layer_norm.switches import Switches

ROOT = Path(__file__).parents[4]
STUDY = Path(__file__).parents[1]
CPU = torch.device("cpu")
OUTCOMES = {
    "00-baseline": Outcome.PASS,
    "01-one-pass": Outcome.FAIL,
    "02-native": Outcome.PASS,
    "03-compile": Outcome.PASS,
    "04-triton": Outcome.FALLBACK,
}


@pytest.fixture(scope="module")
def plans():
    """What the shipped configuration plans of it on a CPU."""
    configuration = read_configuration(ROOT / "workflow/config.yaml", ROOT / "workflow/schemas/config.schema.yaml")
    (chosen,) = (one for one in configuration.workloads if one.name == "layer_norm")
    assert chosen.where == "cuda"
    alone = dataclasses.replace(
        configuration, workloads=(dataclasses.replace(chosen, where="any"),), device="cpu", size="tiny"
    )
    return {plan.variant: plan for plan in plan_runs(alone, ROOT, detect("cpu"))[0].variants}


@pytest.fixture(scope="module")
def baselines(plans):
    return {case: validate_case(plans["00-baseline"], case, ROOT) for case in workload.cases}


@pytest.mark.parametrize("case", workload.cases)
@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=pytest.mark.slow) if "compile" in name else name for name in OUTCOMES]
)
def test_every_phase_gets_its_word_at_the_gate(plans, baselines, variant: str, case: str) -> None:
    baseline = None if variant == "00-baseline" else baselines[case]
    found = validate_case(plans[variant], case, ROOT, baseline=baseline)
    assert found.outcome is OUTCOMES[variant], found.message
    assert (plans[variant].must == "INVALID") == (found.outcome is Outcome.FAIL)
    if found.outcome is Outcome.FAIL:
        assert "tier allows" in found.message


def test_all_phases_are_planned_and_the_refused_one_is_built_upon_by_none(plans) -> None:
    assert OUTCOMES.keys() <= plans.keys()
    assert {name: plans[name].parent for name in list(OUTCOMES)[1:]} == {
        "01-one-pass": "00-baseline",
        "02-native": "00-baseline",
        "03-compile": "02-native",
        "04-triton": "02-native",
    }
    assert [check.name for check in plans["04-triton"].checks] == ["bitwise-repeatable"]


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (4, 7), (3, 16)])
def test_the_closed_form_is_what_autograd_gives(rows: int, width: int) -> None:
    shape = Shape(rows=rows, width=width)
    batch = program.make_inputs("train", shape, 3)
    exact = program.reference(batch, "train", shape).step(batch)
    for norm in ("eager", "native"):
        found = program.build(Switches(norm=norm), batch, "train", shape, CPU).step(batch)
        for name, whole in exact.items():
            torch.testing.assert_close(found[name], whole, rtol=1e-9, atol=1e-9)


def test_compiled_it_is_one_graph_with_the_same_gradient() -> None:
    # without Inductor's code: that a graph comes out whole is seen before it
    compiled = torch.compile(program.normalise_eager, fullgraph=True, backend="aot_eager")
    batch = program.make_inputs("train", Shape(rows=3, width=11), 4)
    operands = [batch[name].requires_grad_() for name in ("x", "w", "b")]
    found = torch.autograd.grad(compiled(*operands), operands, batch["dy"])
    for one, other in zip(
        found, torch.autograd.grad(program.normalise_eager(*operands), operands, batch["dy"]), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("case", "matrices"), [("forward", 2), ("train", 5)])
def test_the_declared_bytes_are_those_of_the_matrices(case: str, matrices: int) -> None:
    full = workload.cases[case].full
    assert program.work(case, full).bytes == pytest.approx(4 * matrices * full.rows * full.width, rel=1e-3)


def test_it_stays_short_enough_to_be_read() -> None:
    sources = [path for path in STUDY.rglob("*.py") if "tests" not in path.parts]
    lines = [line.strip() for path in sources for line in path.read_text().splitlines()]
    assert len([line for line in lines if line and not line.startswith("#")]) <= 240


def test_what_the_tutorial_shows_is_what_the_files_hold() -> None:
    shown = (
        (ROOT / "docs/tutorial.md")
        .read_text()
        .split("## 3. A real study")[1]
        .split("\n## 4.")[0]
        .split("```python\n")[1:]
    )
    held = {line.strip() for path in STUDY.rglob("*.py") for line in path.read_text().splitlines()}
    assert len(shown) == 4
    assert [line for block in shown for line in block.split("```")[0].splitlines() if line.strip() not in held] == []
