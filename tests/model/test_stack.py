"""What is built on what."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise import Case, Needs, Peer, Phase, Shape, Workload
from phasewise.model.stack import BASELINE, MOST_ANCESTORS, stack_variants
from phasewise.records.machine import Machine

CPU = Machine(device="cpu", kind="cpu", name="cpu", cores=2)
GPU = Machine(device="h200", kind="cuda", name="NVIDIA H200", gpus=1, capability=(9, 0), memory_bytes=10**11)


@dataclass(frozen=True)
class Switches:
    a: int = 0
    b: int = 0
    c: int = 0


def workload(*phases: Phase, **changes) -> Workload:
    cases = {"one": Case(tiny=Shape()), "two": Case(tiny=Shape())}
    return Workload(summary="", switches=Switches, cases=cases, phases=phases, **changes)


def stack(item: Workload, machine: Machine = CPU, ablations: str = "none"):
    return {variant.name: variant for variant in stack_variants(item, ("one", "two"), machine, ablations).variants}


def switches(variants, name: str, case: str = "one"):
    return variants[name].places[case].switches


def test_kept_phases_stack_and_others_stand_beside_their_parent():
    found = stack(workload(Phase("x", {"a": 1}), Phase("y", {"b": 1}, keep=False), Phase("z", {"c": 1})))
    assert switches(found, "02-y") == {"a": 1, "b": 1, "c": 0}
    assert switches(found, "03-z") == {"a": 1, "b": 0, "c": 1}
    assert found["03-z"].places["one"].ancestors == ("01-x", "00-baseline")


def test_onto_builds_on_the_named_phase():
    found = stack(workload(Phase("x", {"a": 1}), Phase("y", {"b": 1}), Phase("z", {"c": 1}, onto="x")))
    assert switches(found, "03-z") == {"a": 1, "b": 0, "c": 1}
    assert found["03-z"].places["one"].parent == "01-x"


def test_a_phase_whose_needs_are_unmet_is_not_built_upon():
    phases = (Phase("x", {"a": 1}, needs=Needs(cuda=True)), Phase("y", {"b": 1}))
    on_cpu, on_gpu = stack(workload(*phases)), stack(workload(*phases), GPU)
    assert on_cpu["01-x"].untimed == "needs an NVIDIA GPU" and on_cpu["01-x"].skip is None
    assert switches(on_cpu, "02-y") == {"a": 0, "b": 1, "c": 0}
    assert switches(on_gpu, "02-y") == {"a": 1, "b": 1, "c": 0}


def test_needs_that_no_fallback_cures_skip_the_variant():
    found = stack(workload(Phase("x", {"a": 1}, needs=Needs(cuda=True, gpus=4))), GPU)
    assert found["01-x"].skip == "needs 4 GPUs, this machine has 1"


def test_a_phase_of_one_case_leaves_the_other_alone():
    found = stack(workload(Phase("x", {"a": 1}, cases=("one",)), Phase("y", {"b": 1})))
    assert set(found["01-x"].places) == {"one"}
    assert switches(found, "02-y", "two") == {"a": 0, "b": 1, "c": 0}
    assert found["02-y"].places["two"].parent == "00-baseline"


def test_ablations_leave_one_out_and_put_one_in_without_repeating_what_is_measured():
    phases = (Phase("x", {"a": 1}), Phase("y", {"b": 1}), Phase("z", {"c": 1}))
    found = stack(workload(*phases), ablations="both")
    assert switches(found, "without-x") == {"a": 0, "b": 1, "c": 1}
    assert found["without-x"].places["one"].parent == "03-z"
    assert switches(found, "only-z") == {"a": 0, "b": 0, "c": 1}
    # `without-z` is 02-y, `only-x` is 01-x
    assert "without-z" not in found and "only-x" not in found


def test_a_peer_stands_beside_the_phase_that_it_names_or_what_is_left_of_it():
    phases = Phase("x", {"a": 1}), Phase("y", {"a": 2}, needs=Needs(cuda=True)), Phase("z", {"b": 1})
    peers = Peer("numpy", beside="x"), Peer("cupy", beside="y"), Peer("jax")
    found = stack(workload(*phases, peers=peers))
    assert {found[f"peer-{peer.name}"].places["one"].parent for peer in peers[:2]} == {"01-x"}
    assert found["peer-jax"].places["one"].parent == "03-z"


def test_peers_stand_beside_the_top_of_the_stack():
    found = stack(workload(Phase("x", {"a": 1}), peers=(Peer("numpy", cases=("two",)),)))
    assert found["peer-numpy"].places["two"].parent == "01-x"
    assert set(found["peer-numpy"].places) == {"two"}


def test_a_workload_without_phases_has_its_baseline_alone():
    assert list(stack(workload())) == ["00-baseline"]


def test_plans_grow_with_a_chain_and_not_with_its_square():
    found = stack(workload(*(Phase(f"p{level}", {"a": level}) for level in range(1, 301))))
    last = found["300-p300"].places["one"].ancestors
    assert last[:2] == ("299-p299", "298-p298") and last[-1] == BASELINE
    assert len(set(last)) == MOST_ANCESTORS == max(len(one.places["one"].ancestors) for one in found.values())
    assert found["03-p3"].places["one"].ancestors == ("02-p2", "01-p1", BASELINE)
