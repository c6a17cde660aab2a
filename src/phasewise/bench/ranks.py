"""The process group of an arm that runs on several devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch

from phasewise.bench.stepper import do_nothing


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """How many processes step together, and how they wait for each other."""

    count: int = 1
    barrier: Callable[[], None] = do_nothing
    leave: Callable[[], None] = do_nothing


def join_ranks(device: torch.device) -> Ranks:
    """Join the group that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT name; without WORLD_SIZE there is none."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return Ranks()
    import torch.distributed

    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.distributed.init_process_group("nccl", device_id=device)
    else:
        torch.distributed.init_process_group("gloo")

    def barrier() -> None:
        torch.distributed.barrier()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return Ranks(count=count, barrier=barrier, leave=torch.distributed.destroy_process_group)
