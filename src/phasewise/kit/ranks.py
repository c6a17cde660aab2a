"""One program on several GPUs: who am I, which rows are mine, and how to average. With one rank all of it does nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed


@dataclass(frozen=True)
class Rank:
    """This process within its group."""

    rank: int = 0
    world: int = 1
    # index of its GPU on this host
    local: int = 0

    @property
    def is_first(self) -> bool:
        return self.rank == 0


def find_rank() -> Rank:
    """From RANK, WORLD_SIZE and LOCAL_RANK, as torchrun sets them; a single process without them."""
    return Rank(
        rank=int(os.environ.get("RANK", "0")),
        world=int(os.environ.get("WORLD_SIZE", "1")),
        local=int(os.environ.get("LOCAL_RANK", "0")),
    )


@contextmanager
def process_group(backend: str | None = None) -> Iterator[Rank]:
    """The rank, inside an open process group: NCCL with a GPU, else gloo. A group that is open already is left open."""
    rank = find_rank()
    if rank.world == 1 or distributed.is_initialized():
        yield rank
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(rank.local)
    distributed.init_process_group(backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    try:
        yield rank
    finally:
        distributed.destroy_process_group()


def wrap(module: torch.nn.Module, **options: Any) -> torch.nn.Module:
    """`module` in DistributedDataParallel with `options`; itself where there is one rank or nothing to train."""
    if _world() == 1 or not any(parameter.requires_grad for parameter in module.parameters()):
        return module
    device = next(module.parameters()).device
    devices = [device.index] if device.type == "cuda" else None
    return torch.nn.parallel.DistributedDataParallel(module, device_ids=devices, **options)


def shard(batch: Mapping[str, torch.Tensor], rank: Rank) -> dict[str, torch.Tensor]:
    """The rank's rows of every tensor, as views; the first ranks get one more where they don't divide evenly.

    DistributedDataParallel averages over ranks, not rows: with uneven shards weight the loss by `rows * world / total`.

    Raises:
        ValueError: the tensors differ in their rows, or there are fewer rows than ranks.
    """
    sizes = {name: tensor.shape[0] if tensor.dim() else 0 for name, tensor in batch.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"the tensors of a batch need the same number of rows, found {sizes or 'none'}")
    rows = next(iter(sizes.values()))
    if rows < rank.world:
        raise ValueError(f"a batch of {rows} rows can't be dealt to {rank.world} ranks; use at least one row a rank")
    share, over = divmod(rows, rank.world)
    start = rank.rank * share + min(rank.rank, over)
    end = start + share + (rank.rank < over)
    return {name: tensor[start:end] for name, tensor in batch.items()}


def average(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The mean of each tensor over the ranks, in float32 or its own wider dtype; the given ones stay as they are."""
    world = _world()
    averaged = {}
    for name, tensor in tensors.items():
        # half-precision sums over many ranks would round
        wide = tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32), copy=True)
        if world > 1:
            distributed.all_reduce(wide)
            wide /= world
        averaged[name] = wide.to(tensor.dtype) if tensor.is_floating_point() or tensor.is_complex() else wide
    return averaged


def _world() -> int:
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
