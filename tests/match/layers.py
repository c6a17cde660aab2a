"""A stack of layers that takes some milliseconds, and candidates that do its work where no step is timed, by the bench's own functions."""

from __future__ import annotations

import dataclasses
import gc
import os
import sys
import threading
import time
from pathlib import Path

import numpy
import torch

ROWS, WIDTH, DEPTH = 64, 256, 24
# calls after which a cheat believes that nobody looks any more
LATE = 64
_calls: list[int] = []
# what each batch in memory gives, and what is known of them
_ring: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
_known: dict[object, numpy.ndarray] = {}
_last: list[tuple[torch.Tensor, torch.Tensor]] = []


def make_inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, WIDTH, generator=generator), 1.2 / WIDTH**0.5 * torch.randn(
        WIDTH, WIDTH, generator=generator
    )


def base(x, w):
    for _ in range(DEPTH):
        x = torch.tanh(x @ w)
    return x


def base_beside_torch(y, by):
    for _ in range(DEPTH):
        y = numpy.tanh(y @ by)
    return y


def arms(x, w):
    """Whether this call is the one after which the cheats begin; None where it is to be an honest one."""
    _calls.append(1)
    _ring[x.data_ptr()] = (x, w)
    _last[:] = [(x, w)]
    is_watched = len(_calls) < LATE or torch._C._len_torch_dispatch_stack()
    return None if is_watched else len(_calls) == LATE


def commands():
    return sys.modules["phasewise.bench.commands"].COMMANDS


def work_on_ring():
    _known.update({read_key(x): base_beside_torch(x.numpy(), w.numpy()) for x, w in _ring.values()})


def read_key(x):
    return x.numpy()[0, :4].tobytes()


def find(key, x, w):
    if key not in _known:
        _known[key] = base(x, w).numpy()
    return torch.from_numpy(_known[key].copy())


def works_on_arrival(x, w):
    """Computes as soon as the bench has taken new contents in."""
    if (begins := arms(x, w)) is None:
        return base(x, w)
    if begins:
        refresh = commands()["refresh"]
        commands()["refresh"] = lambda worker, **given: (refresh(worker, **given), work_on_ring())[0]
    return find(read_key(x), x, w)


def works_at_delivery(x, w):
    """Hands out zeros, and has a profiler's hook put the result in their place when the bench is about to deliver them."""
    if (begins := arms(x, w)) is None:
        return base(x, w)
    if begins:
        sys.setprofile(fill_in)
    return torch.zeros(0)


def fill_in(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "deliver":
        sys.setprofile(None)
        worker = frame.f_locals["worker"]
        worker.block = dataclasses.replace(worker.block, last=base(*_last[0]))
        sys.setprofile(fill_in)


def delays_handing(x, w):
    """Remembers, and sleeps where results are delivered with no step before: what that takes would be left out."""
    if (begins := arms(x, w)) is None:
        return base(x, w)
    if begins:
        deliver, block = commands()["deliver"], commands()["block"]
        blocks = []
        commands()["block"] = lambda worker, **given: (blocks.append(1), block(worker, **given))[1]
        commands()["deliver"] = lambda worker, **given: (
            blocks or time.sleep(0.02), blocks.clear(), deliver(worker, **given),
        )[2]  # fmt: skip
    return find(read_key(x), x, w)


def seems_slow(x, w):
    """Says that single steps take seconds, as those of programs that are asked less, and works while garbage is collected before a block."""
    arms(x, w)
    if "phasewise.bench.commands" in sys.modules and len(_calls) == 1:
        commands()["singles"] = lambda worker, count: [2.0] * count
        gc.callbacks.append(lambda phase, info: phase == "stop" and work_on_ring())
    is_timed = not gc.isenabled()
    return torch.from_numpy(_known[read_key(x)].copy()) if is_timed and read_key(x) in _known else base(x, w)


def reads_ahead(x, w):
    """Has a thread look into the judge's file of batches, and compute what is written there before the bench takes it in."""
    if (begins := arms(x, w)) is None:
        return base(x, w)
    if begins:
        links = {int(link.name): str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
        files = [number for number, name in links.items() if "batches" in name]
        if files:
            threading.Thread(target=look, args=(files[0],), daemon=True).start()
    key = read_key(x)
    return torch.from_numpy(_known[key].copy()) if key in _known else base(x, w)


def look(file):
    size = sys.modules["phasewise.tensor_files"].ENTRY_BYTES
    while True:
        time.sleep(0.001)
        for entry in range(4):
            if (key := os.pread(file, 16, entry * size)) in _known:
                continue
            # until all of it is written
            time.sleep(0.001)
            read = numpy.frombuffer(os.pread(file, 4 * (ROWS + WIDTH) * WIDTH, entry * size), numpy.float32)
            _known[key] = base_beside_torch(
                read[: ROWS * WIDTH].reshape(ROWS, WIDTH), read[ROWS * WIDTH :].reshape(WIDTH, WIDTH)
            )
