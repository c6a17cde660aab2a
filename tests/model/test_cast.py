"""Who takes part in the headline of a case."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise import Case, Idea, Needs, Peer, Phase, Shape, Target, Workload
from phasewise.model.configuration import Configuration, WorkloadOptions
from phasewise.model.freshness import Closure
from phasewise.model.headline import Cast, cast_headline, find_own, is_in_headlines
from phasewise.model.stack import stack_variants
from phasewise.plan.run_plan import make_run_plan
from phasewise.plan.variant import RunContext, plan_variant
from phasewise.records.machine import Machine
from phasewise.records.plan import Budget, RunPlan, VariantPlan


@dataclass(frozen=True)
class Switches:
    a: int = 0
    b: int = 0
    c: int = 0


def phase(name: str, **fields: object) -> Phase:
    return Phase(name, {name: 1}, because=Idea("it may help"), **fields)  # type: ignore[arg-type]


def plan(*phases: Phase, **fields: object) -> tuple[RunPlan, dict[str, VariantPlan]]:
    cases = {"one": Case(tiny=Shape(n=1)), "two": Case(tiny=Shape(n=1))}
    item = Workload(summary="", switches=Switches, cases=cases, phases=phases, **fields)  # type: ignore[arg-type]
    machine = Machine(device="cpu", kind="cpu", name="cpu", cores=2)
    stack = stack_variants(item, tuple(cases), machine)
    options = WorkloadOptions(name="w", source="w.py")
    story = make_run_plan(item, stack, options, "tiny-cpu", "tiny", "cpu", "moderate", tuple(cases))
    context = RunContext(
        configuration=Configuration(workloads=(options,)), options=options, workload=item,
        closure=Closure(files={}, planned=frozenset()), size="tiny", run="tiny-cpu", device="cpu", tier="moderate",
        budget=Budget(), lock="",
    )  # fmt: skip
    return story, {one.name: plan_variant(context, stack, one) for one in stack.variants}


def cast(*phases: Phase, **fields: object) -> Cast:
    return cast_headline(*plan(*phases, **fields), "one")


def test_the_stack_is_told_from_its_end_on() -> None:
    found = cast(phase("a"), phase("b", keep=False), phase("c"))
    assert found.stack == ("03-c", "01-a", "00-baseline") and found.members == ("03-c", "00-baseline")


def test_rounds_of_its_own_are_the_headline_of_an_end_that_stands_alone_on_the_baseline() -> None:
    def own(*phases: Phase, case: str = "one", **fields: object) -> str:
        story, plans = plan(*phases, **fields)
        return find_own(cast_headline(story, plans, case), plans, case)

    assert own(phase("a")) == own(phase("a"), phase("b", keep=False)) == "01-a"
    assert own(phase("a", cases=("one",)), case="two") == own(phase("a"), phase("b")) == ""
    # what can't be timed here does not count
    assert own(phase("a"), phase("b", needs=Needs(cuda=True))) == "01-a"
    assert own(phase("a"), peers=(Peer("p"),)) == ""
    assert own(phase("a"), peers=(Peer("p", needs=Needs(cuda=True)),)) == "01-a"
    target = Target("speedup", against="baseline", minimum=2)
    assert own(phase("a"), phase("b", keep=False, targets=(target,))) == ""


def test_at_most_four_peers_of_the_same_output_that_stand_beside_the_end() -> None:
    peers = [
        Peer("other", different="it solves another problem"),
        Peer("early", beside="a"),
        Peer("two", cases=("two",)),
        Peer("absent", needs=Needs(modules=("no_such_module",))),
        *(Peer(f"p{number}") for number in range(5)),
    ]
    story, plans = plan(phase("a"), phase("c"), peers=tuple(peers))
    found = cast_headline(story, plans, "one")
    assert found.peers == ("peer-p0", "peer-p1", "peer-p2", "peer-p3")
    # the others have rounds of their own, but for the one that is in the headline of its only case
    none = {name for name in plans if is_in_headlines(story, plans, name)}
    assert none == {"peer-p0", "peer-p1", "peer-p2", "peer-two"} - {"peer-p3"}


def test_what_a_target_holds_against_the_baseline_is_timed_beside_it() -> None:
    target = Target("speedup", against="baseline", minimum=2)
    phases = phase("a", part="week"), phase("b", keep=False, targets=(target,)), phase("c")
    assert cast(*phases, parts={"week": (target,)}).compared == ("01-a", "02-b")
    # of another case, of the end itself, over the parent, and no ratio of times
    others = (
        Target("speedup", case="two", against="baseline", minimum=2),
        Target("speedup", against="parent", minimum=2),
        Target("peak_memory_bytes", against="baseline", minimum=1),
    )
    assert cast(phase("a", part="week"), phase("c"), parts={"week": others}, targets=(target,)).compared == ()


def test_without_phases_the_baseline_is_the_end() -> None:
    found = cast(peers=(Peer("p"),))
    assert found == Cast(stack=("00-baseline",), peers=("peer-p",)) and found.members == ("00-baseline", "peer-p")


def test_a_phase_of_another_case_is_none_of_this() -> None:
    assert cast(phase("a"), phase("c", cases=("two",))).stack[0] == "01-a"
