"""What a variant is held against: the float64 reference, a peer's own one, or a validated ancestor's results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from phasewise.bench.case import BuiltCase, build_reference, fill_defaults, make_ring, wrap_program
from phasewise.bench.functions import Functions
from phasewise.model.discover import load_sibling
from phasewise.model.workload import Peer, Shape
from phasewise.records.plan import PlannedCase, VariantPlan


def open_yardstick(
    plan: VariantPlan, planned: PlannedCase, functions: Functions, root: Path, *, items: torch.Tensor | None, ring: int
) -> BuiltCase | str:
    """The reference to hold this variant against, or the sentence why there is none.

    A peer that solves a different problem is held against `<name>_reference` of `peers.py` (inputs, case, shape) in
    float64, where that exists.
    """
    peer = find_peer(plan, functions)
    if peer is None or not solves_another_problem(plan, functions):
        return build_reference(plan, planned.case, root, items=items, ring=ring)
    own = _own_reference(functions, peer)
    if own is None:
        return f"not held against the reference: {peer.different}"
    shape, device = Shape(**planned.shape), torch.device("cpu")
    batches = make_ring(functions, planned.case, shape, plan.seed, ring)
    program = fill_defaults(own(batches[0], planned.case, shape), device, torch.float64)
    return wrap_program(plan, planned, functions, program, device, batches, shape)


def find_peer(plan: VariantPlan, functions: Functions) -> Peer | None:
    """The workload's entry for this peer; None for a variant of ours."""
    return next((peer for peer in functions.workload.peers if peer.name == plan.peer), None)


def solves_another_problem(plan: VariantPlan, functions: Functions) -> bool:
    """Whether this is a peer that gives something else than our variants do."""
    peer = find_peer(plan, functions)
    return peer is not None and bool(peer.different)


def _own_reference(functions: Functions, peer: Peer) -> Callable[..., Any] | None:
    module = load_sibling(functions.module.__name__, "peers")
    found = getattr(module, f"{peer.name.replace('-', '_')}_reference", None)
    return found if callable(found) else None
