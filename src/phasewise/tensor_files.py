"""Named tensors in memory files, which processes share by descriptor: no name in any folder, and each reader has a copy of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# entries of a file begin this far apart: what was never written of it takes no memory
ENTRY_BYTES = 1 << 40
# what one system call moves at most (read(2))
MOST_BYTES = 1 << 30

# {name, dtype, shape, offset, bytes} of one tensor, as JSON has it
Slot = dict[str, Any]


def make_file(name: str) -> int:
    """Descriptor of an empty memory file."""
    return os.memfd_create(f"phasewise-{name}")


def reopen_to_read(descriptor: int) -> int:
    """Another descriptor of the same file, through which nothing can be written."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)


def write_tensors(descriptor: int, tensors: Mapping[str, torch.Tensor], entry: int = 0) -> list[Slot]:
    """Write dense tensors, on whatever device, one after the other into an entry; where each lies."""
    import torch

    slots: list[Slot] = []
    offset = entry * ENTRY_BYTES
    for name, tensor in tensors.items():
        plain = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous().reshape(-1)
        size = plain.numel() * plain.element_size()
        if size:
            _write(descriptor, plain.view(torch.uint8).numpy().data, offset)
        slots.append(
            {
                "name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "offset": offset,
                "bytes": size,
            }
        )  # fmt: skip
        offset += size
    return slots


def read_tensors(
    descriptor: int, slots: Sequence[Slot], into: Mapping[str, torch.Tensor] | None = None
) -> dict[str, torch.Tensor]:
    """Copies of the tensors on the CPU, in the memory of those of the same name in `into` where shape and dtype agree.

    Raises ValueError where the file holds less than the slots say.
    """
    import torch

    found = {}
    for slot in slots:
        dtype, shape = getattr(torch, slot["dtype"]), slot["shape"]
        tensor = None if into is None else into.get(slot["name"])
        if tensor is None or not _is_plain(tensor, dtype, shape):
            # new memory costs more time than what is read into it
            tensor = torch.empty(shape, dtype=dtype)
        if tensor.numel() * tensor.element_size() != slot["bytes"]:
            raise ValueError(f"{slot['name']}: {slot['bytes']} bytes are no {dtype} {shape}")
        if slot["bytes"]:
            _read(descriptor, tensor.detach().reshape(-1).view(torch.uint8).numpy().data, slot["offset"])
            if not tensor.is_inference():
                # as any write in place does
                torch.autograd.graph.increment_version(tensor)
        found[slot["name"]] = tensor
    return found


def _is_plain(tensor: torch.Tensor, dtype: torch.dtype, shape: Sequence[int]) -> bool:
    """Whether a tensor of this dtype and shape lies in the CPU's memory as the file has it."""
    import torch

    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.dtype == dtype
        and list(tensor.shape) == list(shape)
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
    )


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data[:MOST_BYTES], offset)
        data, offset = data[written:], offset + written


def _read(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        count = os.preadv(descriptor, [data[:MOST_BYTES]], offset)
        if not count:
            raise ValueError("the file ends before the tensor does")
        data, offset = data[count:], offset + count
