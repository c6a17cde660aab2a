"""A player's process: it loads one side, runs it on a ring of batches, and hands over what the last step gave.

`python -m phasewise.judge.player READ WRITE`. It knows no result, is told no purpose of a run, and its clock decides nothing.
"""

from __future__ import annotations

import gc
import mmap
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from phasewise.bench.import_function import import_function
from phasewise.judge.memory import Plan, map_file, plan_memory, view
from phasewise.judge.serve import serve
from phasewise.judge.values import Tensors, find_problem, join_arguments, name_results

# taken before any code of the player: what it replaces changes nothing here
_now = time.perf_counter
_synchronize = torch.cuda.synchronize


@dataclass
class Player:
    """One side, loaded."""

    function: Callable[..., Any]
    device: torch.device
    inputs: Plan
    outputs: Plan
    batches: mmap.mmap
    results: mmap.mmap
    # of each entry of the ring, tensors on the device
    ring: list[Tensors]
    calls: list[tuple[list[Any], dict[str, Any]]] = field(default_factory=list)
    last: Any = None


def open_player(
    target: str, device: str, entries: int, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], sizes: dict[str, int],
    plain: dict[str, Any], batches: int, results: int,
) -> tuple[Player, dict[str, Any]]:  # fmt: skip
    """Load the function, and the ring from the memory file of batches."""
    place = torch.device("cuda", 0) if device == "cuda" else torch.device("cpu")
    function = import_function(target)
    plan = plan_memory(inputs, sizes)
    memory = map_file(batches, write=False)
    ring = [{name: x.to(place, copy=True) for name, x in view(memory, plan, entry).items()} for entry in range(entries)]
    player = Player(
        function=function,
        device=place,
        inputs=plan,
        outputs=plan_memory(outputs, sizes),
        batches=memory,
        results=map_file(results, write=True),
        ring=ring,
        calls=[join_arguments(tensors, plain) for tensors in ring],
    )
    # it is collected between blocks, never within one
    gc.disable()
    settle(player)
    return player, {}


def refresh(player: Player, entries: list[int]) -> None:
    """Copy these entries anew from the memory file, in place."""
    for entry in entries:
        for name, x in view(player.batches, player.inputs, entry).items():
            player.ring[entry][name].copy_(x)
    _wait(player)


def settle(player: Player) -> None:
    """Collect garbage and wait for the device: between the parent's question and the answer to `run` there is nothing but the steps."""
    gc.collect()
    _wait(player)


def run(player: Player, first: int, steps: int) -> float:
    """Step through the ring from entry `first`; seconds by this process's own clock, which the parent holds against its own."""
    count = len(player.calls)
    function, calls = player.function, player.calls
    start = _now()
    for index in range(first, first + steps):
        positional, named = calls[index % count]
        player.last = function(*positional, **named)
    _wait(player)
    return _now() - start


def deliver(player: Player) -> str:
    """Copy what the last step gave into the memory file; "" or why it can't be: no plain dense tensors of the right kind."""
    found = name_results(player.last)
    wanted = view(player.results, player.outputs, 0)
    if found.keys() != wanted.keys():
        return f"results are named {', '.join(found)}; the base's are {', '.join(wanted)}"
    for name, place in wanted.items():
        x = found[name]
        if problem := find_problem(x, player.device):
            return f"result {name!r}: {problem}"
        if x.shape != place.shape or x.dtype != place.dtype:
            return f"result {name!r} is {x.dtype} {list(x.shape)}; the base's is {place.dtype} {list(place.shape)}"
        place.copy_(x.detach())
    return ""


def _wait(player: Player) -> None:
    if player.device.type == "cuda":
        _synchronize(player.device)


if __name__ == "__main__":
    serve(
        int(sys.argv[1]),
        int(sys.argv[2]),
        open_player,
        {"refresh": refresh, "settle": settle, "run": run, "deliver": deliver},
    )
