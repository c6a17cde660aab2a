"""Hooks that are not timed are watched after a few steps, which they share, and each of them once as the first to ask."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch
from hooked import CALLS

from phasewise.bench.case import build_case
from phasewise.bench.hooks import find_hook_work
from plans import make_plan

HERE = Path(__file__).parent


def look_at(case, **switches):
    CALLS.clear()
    built = build_case(make_plan("hooked.py", HERE, switches=switches, cases=(case,)), case, HERE)
    CALLS.clear()
    return find_hook_work(built, built.batches[0])


def name_first_askers():
    """Who was called first after each step, but for what readies the next one."""
    return [after for before, after in itertools.pairwise(CALLS) if before == "step"]


@pytest.mark.parametrize("case, steps", [("resident", 4), ("placed", 3)])
def test_hooks_share_steps_and_each_is_the_first_to_ask_once(case, steps):
    assert look_at(case) == ""
    assert CALLS.count("step") == steps
    hooks = {"state", "load", "outputs"} | ({"place"} if case == "resident" else set())
    assert set(name_first_askers()) == hooks


@pytest.mark.parametrize("hook", ["state", "load", "outputs", "place"])
def test_work_that_a_hook_does_only_where_it_asks_first_is_seen(hook):
    assert look_at("resident", lazy=hook) == (
        f"`{hook}`, which is not timed, calls aten::mm; move the work into the step"
    )


@pytest.mark.parametrize("hook", ["outputs", "place"])
def test_work_beside_torch_is_seen_where_a_hook_asks_first(hook):
    found = look_at("resident", lazy=hook, beside_torch=True)
    assert found.startswith(f"`{hook}`, which is not timed, ") and "no operator of ATen" in found


def test_a_peer_may_make_its_own_format_where_nobody_times_it():
    plan = make_plan("hooked.py", HERE, switches={"lazy": "place"}, cases=("resident",))
    built = build_case(plan, "resident", HERE)
    assert find_hook_work(built, built.batches[0]).startswith("`place`")
    peer = replace(built, plan=msgspec.structs.replace(plan, peer="theirs"))
    assert find_hook_work(peer, peer.batches[0]) == ""


def test_what_is_looked_at_is_left_as_it_was():
    plan = make_plan("hooked.py", HERE, cases=("resident",))
    built = build_case(plan, "resident", HERE)
    before = {name: tensor.clone() for name, tensor in built.batches[0].items()}
    find_hook_work(built, built.batches[0])
    assert all(torch.equal(before[name], tensor) for name, tensor in built.batches[0].items())
