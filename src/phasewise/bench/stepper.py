"""What a worker times: a case of a variant, or a function by itself, behind one interface."""

from __future__ import annotations

import importlib.metadata
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from phasewise.bench.case import BuiltCase, Given, build_case, torch_device
from phasewise.bench.import_function import import_function
from phasewise.model.workload import Shape
from phasewise.records.plan import VariantPlan
from phasewise.tensors import overwrite, walk

# twice the cache is written to flush it; where its size is unknown, more than any last-level cache of a desktop
UNKNOWN_CACHE_BYTES = 1 << 28
CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# gives the tensors of a batch, in the memory of those that it is called with where shapes agree
Read = Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]]


def do_nothing() -> None:
    """What is done where there is nothing to restore, to wait for, or to close."""


def _keep(entry: int, read: Read) -> None:
    raise AssertionError("a function has no ring of batches")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Something that can be stepped; steps are numbered, so that inputs come from a ring."""

    device: torch.device
    # everything that is timed of step `index`
    step: Callable[[int], Any]
    # batch `index` placed alone, to time that
    place: Callable[[int], Any] | None = None
    # back to the state that it was built with
    restore: Callable[[], None] = do_nothing
    # waits for work that torch.cuda.synchronize does not see
    wait: Callable[[], None] = do_nothing
    # raw result -> named tensors, as the program gives them
    outputs: Callable[[Any], Mapping[str, torch.Tensor]] | None = None
    # named tensors; None where there are none
    state: Callable[[], Mapping[str, torch.Tensor]] | None = None
    # gives an entry of the ring the contents of another batch, in its own memory where shapes agree
    refresh: Callable[[int, Read], None] = _keep
    # what it was made of; None for a function
    case: BuiltCase | None = None
    # empties the last-level cache, where steps are timed cold
    flush: Callable[[], None] | None = None
    items: float = 1.0
    version: str = ""
    # uses memory that torch's allocator does not know
    foreign: bool = False
    close: Callable[[], None] = do_nothing


def bench_case(
    plan: dict[str, Any],
    case: str,
    root: str,
    shape: dict[str, Any] | None,
    given: Given | None = None,
) -> Bench:
    """The bench of a variant in one case: placing is part of the step unless its inputs are resident; `given` as for `build_case`."""
    wanted = None if shape is None else Shape(**shape)
    built = build_case(msgspec.convert(plan, VariantPlan), case, Path(root), shape=wanted, given=given)
    program = built.program
    resident = built.planned.inputs == "resident"
    batches = [dict(batch) for batch in built.batches]
    built = replace(built, batches=tuple(batches))
    ring = [built.place(index) for index in range(len(batches))] if resident else []

    def step_resident(index: int) -> Any:
        return program.step(ring[index % len(ring)])

    def step_placing(index: int) -> Any:
        return program.step(built.place(index))

    def refresh(entry: int, read: Read) -> None:
        contents = read(batches[entry])
        batches[entry].clear()
        batches[entry].update(contents)
        if resident and overwrite(ring[entry], placed := built.place(entry)):
            ring[entry] = placed

    return Bench(
        device=built.device,
        step=step_resident if resident else step_placing,
        place=built.place,
        restore=built.restore,
        wait=program.sync or do_nothing,
        outputs=program.outputs,
        state=program.state,
        refresh=refresh,
        case=built,
        items=built.work.items,
        version=_peer_version(built),
        foreign=program.sync is not None,
        close=program.close,
    )


def bench_function(function: str, setup: str, arguments: Mapping[str, Any], device: str) -> Bench:
    """The bench of the function `function`, which is one step.

    `setup`, if not empty, names a function whose result the step is called with; `arguments` go to it by name.
    """
    step = import_function(function)
    given: tuple[Any, ...] = ()
    # functions that are compared draw the same
    torch.manual_seed(0)
    random.seed(0)
    if setup:
        prepared = import_function(setup)(**arguments)
        given = prepared if isinstance(prepared, tuple) else (prepared,)
    return Bench(device=torch_device(device), step=lambda index: step(*given), outputs=name_results)


def name_results(raw: Any) -> dict[str, torch.Tensor]:
    """Tensors and numbers in a result, by their place."""
    return {
        path or "result": leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
        for path, leaf in walk(raw)
        if isinstance(leaf, torch.Tensor | bool | int | float)
    }


def make_flush(device: torch.device) -> Callable[[], None]:
    """A function that writes a buffer of twice the last-level cache."""
    if device.type == "cuda":
        cache = torch.cuda.get_device_properties(device).L2_cache_size
    else:
        cache = max((_cache_bytes(path) for path in CPU_CACHES.glob("index*/size")), default=UNKNOWN_CACHE_BYTES)
    buffer = torch.empty(2 * cache, dtype=torch.uint8, device=device)

    def flush() -> None:
        buffer.zero_()

    # now, so that its pages are there before the program's memory is watched
    flush()
    return flush


def _cache_bytes(path: Path) -> int:
    text = path.read_text().strip()
    return int(text.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)


def _peer_version(built: BuiltCase) -> str:
    """Version of the package that a peer stands for."""
    for peer in built.functions.workload.peers:
        if peer.name == built.plan.peer and peer.package:
            try:
                return f"{peer.package} {importlib.metadata.version(peer.package)}"
            except importlib.metadata.PackageNotFoundError:
                return peer.package
    return ""
