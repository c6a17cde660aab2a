"""Any value at any field of the contract gives a plan or one sentence, never anything else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from phasewise import (
    Case,
    Check,
    Idea,
    Needs,
    Peer,
    Phase,
    Program,
    Risk,
    Shape,
    Target,
    Tolerance,
    Work,
    Workload,
)
from phasewise.model.check import check_workload
from phasewise.model.configuration import Configuration, WorkloadOptions
from phasewise.model.freshness import Closure
from phasewise.model.parse import parse, read_hints
from phasewise.model.stack import stack_variants
from phasewise.model.workload import DEFAULT_TIERS
from phasewise.plan.run_plan import make_run_plan
from phasewise.plan.variant import RunContext, plan_variant
from phasewise.records.errors import PlanError
from phasewise.records.machine import Machine
from phasewise.records.plan import Budget
from phasewise.store import encode

MACHINE = Machine(
    kind="cpu", device="cpu", name="A processor", cores=2, memory_bytes=2**33, cache_bytes=2**20,
)  # fmt: skip


@dataclass(frozen=True)
class Switches:
    fused: bool = False
    block: int = 64


PHASE = Phase(
    "fused", {"fused": True}, because=Idea("one pass"), part="week-1", needs=Needs(), tolerance=Tolerance(1e-3, 1e-3, why="half precision"),
    targets=(Target("speedup", against="parent", minimum=1.1),), risks=(Risk("r", "low", "low", check="finite"),),
)  # fmt: skip
GOOD = Workload(
    summary="A sum",
    switches=Switches,
    cases={"sum": Case(tiny=Shape(n=4))},
    parts={"week-1": ()},
    phases=(PHASE,),
    targets=(Target("time_s", minimum=1.0),),
    checks=(Check("finite"),),
    peers=(Peer("numpy"),),
)
# where an object of each kind stands in a workload
PLACES: dict[type, Callable[[Any], Workload]] = {
    Workload: lambda one: one,
    Case: lambda one: replace(GOOD, cases={"sum": one}),
    Phase: lambda one: replace(GOOD, phases=(one,)),
    Idea: lambda one: replace(GOOD, phases=(replace(PHASE, because=one),)),
    Needs: lambda one: replace(GOOD, phases=(replace(PHASE, needs=one),)),
    Tolerance: lambda one: replace(GOOD, tiers={**DEFAULT_TIERS, "moderate": one}),
    Risk: lambda one: replace(GOOD, risks=(one,)),
    Target: lambda one: replace(GOOD, targets=(one,)),
    Check: lambda one: replace(GOOD, checks=(one,)),
    Peer: lambda one: replace(GOOD, peers=(one,)),
}
EXAMPLES: dict[type, Any] = {
    Workload: GOOD, Case: GOOD.cases["sum"], Phase: PHASE, Idea: PHASE.because, Needs: PHASE.needs,
    Tolerance: PHASE.tolerance, Risk: PHASE.risks[0], Target: GOOD.targets[0], Check: GOOD.checks[0], Peer: GOOD.peers[0],
}  # fmt: skip
FIELDS = [(kind, field) for kind in PLACES for field in read_hints(kind)]
leaves = (
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(some.characters(), max_size=8)
    | some.binary(max_size=4) | some.sampled_from(["\ud800", "\0", "\x1b[2J", "", "x" * 200_000, 2**200, -5, 10**9, math.nan, 1e308])
    | some.sampled_from([object(), object, len, Switches, *EXAMPLES.values(), Shape(n=math.nan), Shape(n=[1])])
)  # fmt: skip
values = some.recursive(
    leaves,
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.tuples(inner, inner)
        | some.dictionaries(
            some.sampled_from(["sum", "tiny", "fused", "moderate", "\ud800", 3, None, ("x",)]), inner, max_size=2
        )
    ),
    max_leaves=4,
)


def plan(workload: Workload) -> None:
    """All plans of the workload, as they would be written."""
    checked = check_workload(workload, "w")
    options = WorkloadOptions(name="w", source="w.py")
    context = RunContext(
        configuration=Configuration(workloads=(options,)), options=options, workload=checked,
        closure=Closure(files={}, planned=frozenset()), size="tiny", run="tiny-cpu", device="cpu", tier="moderate",
        budget=Budget(), lock="0" * 16,
    )  # fmt: skip
    cases = tuple(name for name, case in checked.cases.items() if case.tiny is not None)
    stack = stack_variants(checked, cases, MACHINE, "both")
    if cases:
        encode(make_run_plan(checked, stack, options, "tiny-cpu", "tiny", "cpu", "moderate", cases))
    for variant in stack.variants:
        if variant.places:
            encode(plan_variant(context, stack, variant))


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=[f"{kind.__name__}.{field}" for kind, field in FIELDS])
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(value=values)
def test_any_value_at_any_field_is_planned_or_refused_in_a_sentence(kind, field, value):
    try:
        plan(PLACES[kind](replace(EXAMPLES[kind], **{field: value})))
    except PlanError as error:
        assert_is_sentence(str(error))


def assert_is_sentence(text: str) -> None:
    assert text.isprintable(), "a terminal can show it"
    assert 10 < len(text) < 1000


WRONG: dict[tuple[type, str], Any] = {
    (Case, "inputs"): "residant",
    (Case, "cache"): "luke",
    (Case, "scaling"): "linear",
    (Case, "export"): "no",
    (Case, "steps"): 10**9,
    (Case, "sample_items"): -5,
    (Case, "memory_limit_bytes"): {"tiny": -5},
    (Case, "baseline_at"): {"tiny": ({"n": 2},)},
    (Case, "tiny"): Shape(n=math.nan),
    (Needs, "modules"): "numpy",
    (Needs, "gpus"): -1,
    (Needs, "capability"): 8.0,
    (Tolerance, "rtol"): -1,
    (Tolerance, "atol"): math.nan,
    (Tolerance, "times_baseline"): "8",
    (Target, "minimum"): math.nan,
    (Target, "stretch"): "3",
    (Target, "better"): "more",
    (Target, "target"): 10**5000,
    (Risk, "probability"): math.nan,
    (Check, "when"): "sometimes",
    (Phase, "expect"): (1, math.inf),
    (Phase, "keep"): "yes",
    (Phase, "sets"): [("fused", True)],
    (Phase, "cases"): "sum",
    (Phase, "name"): 5,
    (Workload, "summary"): "\ud800",
    (Workload, "cases"): [],
    (Workload, "phases"): PHASE,
    (Workload, "peers"): {"numpy": None},
    (Workload, "environment"): {"A": "1"},
}


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [(*key, value) for key, value in WRONG.items()],
    ids=[f"{kind.__name__}.{field}" for kind, field in WRONG],
)
def test_what_means_nothing_is_refused_with_its_place_and_value(kind, field, value):
    with pytest.raises(PlanError) as caught:
        plan(PLACES[kind](replace(EXAMPLES[kind], **{field: value})))
    assert_is_sentence(str(caught.value))
    assert field in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (Work, Work(items=0), "items = 0 is not allowed; a finite number above 0"),
        (Work, Work(items=math.nan), "items = nan"),
        (Work, Work(items="x"), "items = 'x'"),
        (Work, Work(items=1, dtype="int3"), "dtype = 'int3' is not allowed; one of 'float32'"),
        (Work, {"items": 1}, "a phasewise.Work is needed"),
        (Program, None, "a phasewise.Program is needed"),
        (Program, Program(step=3), "step = 3 is not allowed; a function"),
        (Program, Program(step=len, load={}), "load = {} is not allowed; a function or None"),
        (Program, Program(step=len, module=3), "module = 3 is not allowed"),
        (Program, Program(step=len, facts={"n": math.inf}), "facts['n'] = inf"),
        (Program, Program(step=len, fallbacks="slow"), "fallbacks = 'slow'"),
    ],
)
def test_what_a_program_declares_while_it_runs_is_read_the_same_way(kind, value, words):
    pytest.importorskip("torch")
    with pytest.raises(PlanError) as caught:
        parse(value, kind, "build")
    assert words in str(caught.value)


def test_lists_stand_for_tuples_and_whole_numbers_for_floats():
    read = check_workload(replace(GOOD, phases=[replace(PHASE, expect=[1, 2])]), "w")
    assert read.phases == (replace(PHASE, expect=(1.0, 2.0)),)
    assert type(read.phases[0].expect[0]) is float


def test_every_choice_is_closed():
    hints = {name: hint for kind in PLACES for name, hint in read_hints(kind).items()}
    assert set(get_args(hints["inputs"])) == {"timed", "resident"}
    assert set(get_args(hints["when"])) == {"every", "kept", "final"}
