"""The float64 reference of one case: computed once, kept in a cache, and made again where that is missing or its sources changed."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from phasewise.bench.case import BuiltCase, build_reference, fill_defaults, wrap_program
from phasewise.bench.functions import Batch, Functions
from phasewise.judge.pool import count_batches
from phasewise.judge.sample import choose_items
from phasewise.judge.trajectory import Named, Trajectory, follow
from phasewise.model.discover import load_peers
from phasewise.model.layout import Layout
from phasewise.model.sources import hash_files, name_loaded
from phasewise.model.workload import Peer, Shape
from phasewise.records.errors import PlanError
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.tensors import category, clone, count_bytes

# fewest steps of a program with state: of three, one that leaves out the second can go five sixths of the way by chance, which half a step's
# slack allows
LEAST_STEPS = 4
SEEDS = 2**31
# to be raised when the core makes a reference otherwise: a cached one is checked against the workload's sources only
MAKING = 2
# digits of a key
DIGITS = 24


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What is right, in float64."""

    # of the batches that were followed, in their order; drawn when the reference was made
    seeds: tuple[int, ...]
    # over all of them, one after the other, from the state that the program was built with
    trajectory: Trajectory
    # the items that it covers, 1-D int64; None for all
    items: torch.Tensor | None

    @property
    def is_stateful(self) -> bool:
        return self.trajectory.state is not None


def load_reference(
    plan: VariantPlan, planned: PlannedCase, functions: Functions, root: Path, inputs: Batch
) -> Reference | str:
    """The reference that this variant is compared with, from the cache or made now; a sentence why there is none.

    A peer that solves another problem has `<name>_reference` beside its function, (inputs, case, shape) in float64, or none.

    Raises:
        PlanError: it is not in float64, or has an output that is nowhere a number.
    """
    peer = find_peer(plan, functions)
    build: Callable[[tuple[Batch, ...], torch.Tensor | None], BuiltCase]
    if peer is not None and peer.different:
        own = _own_reference(functions, peer)
        if own is None:
            return f"not compared with the reference: {peer.different}"
        program = own

        def build(batches: tuple[Batch, ...], items: torch.Tensor | None) -> BuiltCase:
            shape, device = Shape(**planned.shape), torch.device("cpu")
            built = fill_defaults(program(clone(inputs), planned.case, shape), device, torch.float64)
            return wrap_program(plan, planned, functions, built, device, batches, shape)
    else:

        def build(batches: tuple[Batch, ...], items: torch.Tensor | None) -> BuiltCase:
            # in float64 it may train on what it was given
            return build_reference(plan, planned.case, root, items=items, given=(clone(inputs), batches))

    name = peer.name if peer is not None and peer.different else ""
    path = Layout(root).reference(plan.workload, planned.case, make_key(plan, planned, name, inputs))
    found = _read(path)
    if found is None:
        items = None if name else _choose_items(planned, functions, plan.seed)
        found = make_reference(planned, functions, inputs, items, build)
        _write(found, path)
    return found


def make_reference(
    planned: PlannedCase,
    functions: Functions,
    inputs: Batch,
    items: torch.Tensor | None,
    build: Callable[[tuple[Batch, ...], torch.Tensor | None], BuiltCase],
) -> Reference:
    """Draw batches and follow the reference over them."""
    steps = max(LEAST_STEPS, planned.steps)
    count = max(planned.steps, count_batches(count_bytes(inputs.values())))
    seeds = [secrets.randbelow(SEEDS) for _ in range(max(count, steps))]
    shape = Shape(**planned.shape)
    batches = tuple(functions.make_inputs(planned.case, shape, seed) for seed in seeds)
    case = build(batches, items)
    # a program with state is followed no further than its author says, and far enough to see a step that is left out
    count = steps if case.program.state is not None else count
    trajectory = follow(case, count)
    case.program.close()
    for outputs in trajectory.outputs:
        check_reference(outputs, planned.case)
    return Reference(seeds=tuple(seeds[:count]), trajectory=trajectory, items=items)


def check_reference(outputs: Named, case: str) -> None:
    """Raise PlanError unless each output of floats is in float64, and a number somewhere."""
    for name, tensor in outputs.items():
        if category(tensor) not in ("float", "complex"):
            continue
        if tensor.dtype not in (torch.float64, torch.complex128):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise PlanError(f"{case}: the reference's output {name!r} is {kind}; compute it in float64")
        if tensor.numel() and bool(torch.isnan(tensor).all()):
            raise PlanError(
                f"{case}: the reference's output {name!r} is nowhere a number; choose inputs for which it is"
            )


def find_peer(plan: VariantPlan, functions: Functions) -> Peer | None:
    """The workload's entry for this peer; None for a variant of ours."""
    return next((peer for peer in functions.workload.peers if peer.name == plan.peer), None)


def is_other_problem(plan: VariantPlan, functions: Functions) -> bool:
    """Whether this is a peer that gives something else than our variants do."""
    peer = find_peer(plan, functions)
    return peer is not None and bool(peer.different)


def make_key(plan: VariantPlan, planned: PlannedCase, peer: str, inputs: Batch) -> str:
    """Digest of the inputs' bytes and of all else that the result depends on but its sources, which are compared one by one."""
    digest = hashlib.sha256()
    for part in (
        MAKING, plan.source, planned.case, sorted(planned.shape.items()), planned.steps, planned.sample_items, plan.seed, peer, plan.lock,
        platform.machine(), torch.__version__,
    ):  # fmt: skip
        digest.update(repr(part).encode() + b"\n")
    for name, tensor in sorted(inputs.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:DIGITS]


def _choose_items(planned: PlannedCase, functions: Functions, seed: int) -> torch.Tensor | None:
    if planned.sample_items is None:
        return None
    if functions.rows is None:
        raise PlanError(
            f"{functions.module.__name__}: case {planned.case!r} samples its items, and there is no function `rows`; "
            "write rows(case, shape), which gives their number"
        )
    return choose_items(planned.sample_items, functions.rows(planned.case, Shape(**planned.shape)), seed)


def _own_reference(functions: Functions, peer: Peer) -> Callable[..., Any] | None:
    module = load_peers(functions.module.__name__, peer.name)
    found = getattr(module, f"{peer.name.replace('-', '_')}_reference", None)
    return found if callable(found) else None


def _read(path: Path) -> Reference | None:
    """What was made before of the same sources; None where there is none."""
    try:
        kept: Mapping[str, Any] = torch.load(path, weights_only=True)
    except FileNotFoundError:
        return None
    if hash_files(kept["loaded"]) != kept["loaded"]:
        return None
    trajectory = Trajectory(outputs=tuple(kept["outputs"]), initial=kept["initial"], state=kept["state"])
    return Reference(seeds=tuple(kept["seeds"]), trajectory=trajectory, items=kept["items"])


def _write(reference: Reference, path: Path) -> None:
    """Whole or not at all: two processes may make the same at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trajectory = reference.trajectory
    kept = {
        "seeds": list(reference.seeds), "items": reference.items, "outputs": [dict(one) for one in trajectory.outputs],
        "initial": dict(trajectory.initial), "state": None if trajectory.state is None else dict(trajectory.state),
        "loaded": hash_files(name_loaded(sys.modules)),
    }  # fmt: skip
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save(kept, file)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
