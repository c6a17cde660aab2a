"""What has to be known of both sides before a match is planned. Each function runs in a process of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.match.flops import watch_flops
from phasewise.match.functions import find_dtype, make_reference, move, name_dtype, place
from phasewise.match.known import Base, BaseRequest, Candidate, CandidateRequest
from phasewise.match.load import (
    build_module,
    check_overrides,
    find_name,
    find_object,
    is_module,
    load_callable,
    make_batch,
    make_init,
    read_tolerance,
)
from phasewise.match.side import BASE_NAMES, CANDIDATE_NAMES, Side
from phasewise.match.values import PLAIN, Tensors, name_results
from phasewise.prepare.peaks import cache_bytes, measure_peaks
from phasewise.records.errors import UserError
from phasewise.records.machine import Machine
from phasewise.records.plan import Allowance
from phasewise.tensors import all_same_bits, count_bytes

HALVES = (torch.float16, torch.bfloat16)
# modules that give other results in training
TRAINED = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
# what a base may raise that can't do with a dtype
REFUSALS = (RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError)


def probe_base(payload: dict[str, Any]) -> dict[str, Any]:
    """A `BaseRequest` to a `Base`; keeps the arguments of its class, and its weights.

    :raises UserError: it can't be called with its own inputs
    """
    asked = msgspec.convert(payload, BaseRequest)
    side = msgspec.structs.replace(asked.side, name=find_name(asked.side, BASE_NAMES))
    check_overrides(side, asked.overrides)
    own = read_tolerance(side)
    init = make_init(side, asked.overrides)
    batch = make_batch(side, asked.overrides, 0)
    if not all_same_bits(batch, make_batch(side, asked.overrides, 0)):
        raise UserError(
            "its inputs differ from one call to the next with the same seed; draw them with torch, numpy.random or random, which are seeded "
            "before each call, or from a generator that make_inputs(seed) seeds"
        )
    found = find_object(side)
    weights = build_module(found, init).state_dict() if is_module(found) else {}
    keep_start(Path(asked.start), init, weights)
    device = torch.device(asked.device)
    evaluates = is_module(found) and is_random(side, asked.start, batch, device)
    call, _ = load_callable(side, Path(asked.start), evaluates=evaluates)
    call = move(call, device, None)
    positional, named = place(batch, device, None)
    with watch_flops() as counted:
        given = name_results(call(*positional, **named))
    given_to = [x for name, x in batch.items() if name != PLAIN]
    return msgspec.to_builtins(
        Base(
            name=side.name,
            dtype=find_precision(side, asked, batch, evaluates=evaluates),
            results={name: name_dtype(x) for name, x in given.items()},
            is_half=any(x.dtype in HALVES for x in given.values()),
            evaluates=evaluates,
            trains=isinstance(call, torch.nn.Module) and any(part.training and isinstance(part, TRAINED) for part in call.modules()),
            tolerance=None if own is None else Allowance(rtol=own.rtol, atol=own.atol, why=own.why),
            flops=counted.flops,
            bytes=count_bytes([*given_to, *weights.values(), *given.values()]),
            batch_bytes=count_bytes(given_to),
            result_bytes=count_bytes(given.values()),
        )
    )  # fmt: skip


def import_candidate(payload: dict[str, Any]) -> None:
    """Import the module of a `Side`; raises UserError where the candidate does not exist."""
    find_name(msgspec.convert(payload, Side), CANDIDATE_NAMES)


def probe_candidate(payload: dict[str, Any]) -> dict[str, Any]:
    """A `CandidateRequest` to a `Candidate`; raises UserError where it does not exist."""
    asked = msgspec.convert(payload, CandidateRequest)
    side = msgspec.structs.replace(asked.side, name=find_name(asked.side, CANDIDATE_NAMES))
    _, doubt = load_callable(side, Path(asked.start))
    return msgspec.to_builtins(Candidate(name=side.name, doubt=doubt))


def measure_machine(device: str) -> dict[str, Any]:
    """A `Machine` with the ceilings of this device and no more."""
    there = torch.device(device)
    return msgspec.to_builtins(
        Machine(device=device, kind=device, name="", peaks=measure_peaks(there), cache_bytes=cache_bytes(there))
    )


def keep_start(path: Path, init: Tensors, weights: Tensors) -> None:
    """Keep what a module is built from; raises UserError for what would not come back from a file."""
    torch.save({"init": init, "weights": dict(weights)}, path)
    try:
        torch.load(path, weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(f"the base's weights can't be kept ({error}); a state_dict holds tensors") from error


def is_random(side: Side, start: str, batch: Tensors, device: torch.device) -> bool:
    """Whether two calls of a module on the same batch differ, after other random numbers were drawn."""
    call = move(load_callable(side, Path(start))[0], device, None)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        positional, named = place(batch, device, None)
        found.append(name_results(call(*positional, **named)))
    return not all_same_bits(*found)


def find_precision(side: Side, asked: BaseRequest, batch: Tensors, *, evaluates: bool) -> str:
    """The first of the dtypes in which the base gives results; "" if none of them but that of its inputs."""
    for name in asked.dtypes:
        call, _ = load_callable(side, Path(asked.start), evaluates=evaluates)
        if name and is_carried_through(call, batch, torch.device(asked.device), name):
            return name
    return ""


def is_carried_through(call: Callable[..., Any], batch: Tensors, device: torch.device, name: str) -> bool:
    """Whether it can be called in that dtype, and its results are of it."""
    wide = find_dtype(name)
    assert wide is not None, "it is named"
    try:
        program = make_reference(call, device, wide)
        assert program.place is not None, "a reference places"
        found = name_results(program.step(program.place(batch)))
    except REFUSALS:
        return False
    return all(
        x.dtype in (wide, wide.to_complex()) or not (x.is_floating_point() or x.is_complex()) for x in found.values()
    )
