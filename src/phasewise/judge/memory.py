"""Memory files that processes share by their descriptors: named tensors at fixed places, without a name in any folder."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# a tensor begins at a multiple of this many bytes
ALIGNMENT = 256


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Where one tensor lies within an entry."""

    name: str
    # as torch spells it, without "torch."
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The places of the tensors of one entry."""

    slots: tuple[Slot, ...]
    bytes: int

    def plain(self) -> list[dict[str, Any]]:
        """As JSON values."""
        return [{"name": slot.name, "dtype": slot.dtype, "shape": list(slot.shape)} for slot in self.slots]


def plan_memory(tensors: Sequence[Mapping[str, Any]], sizes: Mapping[str, int]) -> Plan:
    """Places for tensors {name, dtype, shape}; `sizes` are the bytes of an element by dtype."""
    slots: list[Slot] = []
    offset = 0
    for one in tensors:
        elements = 1
        for length in one["shape"]:
            elements *= length
        size = elements * sizes[one["dtype"]]
        slots.append(Slot(name=one["name"], dtype=one["dtype"], shape=tuple(one["shape"]), offset=offset, bytes=size))
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    return Plan(slots=tuple(slots), bytes=max(offset, ALIGNMENT))


def make_file(name: str) -> int:
    """Descriptor of an empty memory file."""
    return os.memfd_create(f"phasewise-{name}")


def reopen_to_read(descriptor: int) -> int:
    """Another descriptor of the same file through which nothing can be written."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)


def map_file(descriptor: int, *, write: bool) -> mmap.mmap:
    """The file as memory; it has its size already."""
    access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size, access=access)


def view(memory: mmap.mmap, plan: Plan, entry: int) -> dict[str, torch.Tensor]:
    """The tensors of entry number `entry`, without a copy."""
    import warnings

    import torch

    found = {}
    with warnings.catch_warnings():
        # a file that is mapped to be read gives tensors that must not be written
        warnings.simplefilter("ignore", UserWarning)
        for slot in plan.slots:
            dtype = getattr(torch, slot.dtype)
            if slot.bytes == 0:
                found[slot.name] = torch.empty(slot.shape, dtype=dtype)
                continue
            flat = torch.frombuffer(
                memory, dtype=dtype, count=slot.bytes // dtype.itemsize, offset=entry * plan.bytes + slot.offset
            )
            found[slot.name] = flat.view(slot.shape)
    return found
