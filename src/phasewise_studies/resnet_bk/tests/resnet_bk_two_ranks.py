"""Two processes that each train three steps both ways of averaging, and give what every rank has to agree on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from phasewise.kit.ranks import process_group
from phasewise.workers.group import rank_environments
from phasewise.workers.isolated import run_isolated
from phasewise_studies.resnet_bk import checks, program, train
from phasewise_studies.resnet_bk.switches import Switches
from phasewise_studies.resnet_bk.tests.resnet_bk_cases import CPU, STACK, TINY, build, make_context, run_steps


def run_two_ranks() -> list[dict[str, Any]]:
    """What each process gave."""
    with ThreadPoolExecutor() as pool:
        found = list(
            pool.map(
                lambda around: run_isolated(f"{__name__}:train_rank", None, environment=around), rank_environments(2)
            )
        )
    assert all(isinstance(one, dict) for one in found), found
    return found


def train_rank(payload: None) -> dict[str, Any]:
    """Losses and gradient norms of DistributedDataParallel, and of one all-reduce over all gradients."""
    # more than there are cores would wait for one another
    torch.set_num_threads(1)
    on_gpu = torch.cuda.device_count() >= 2
    with process_group("nccl" if on_gpu else "gloo") as rank:
        device = torch.device("cuda", rank.local) if on_gpu else CPU
        ddp = build(device=device, **STACK, ranks=2)
        rows = ddp.place(program.make_inputs("documented", TINY, 0))["tokens"]
        found = {
            "rows": rows[:2].tolist(),
            "ddp": run_steps(ddp),
            # without a GPU the graph's two halves run as they are
            "flat": run_steps(build(device=device, **STACK, ranks=2, graph=True)),
            "alone": run_steps(build(device=device, **STACK)),
        }
        context = make_context(Switches(**STACK, ranks=2), device=device)
        for name, wrap in (("agree", train.wrap), ("drift", lambda model, **_: model)):
            # without averaging each rank learns from its own rows
            train.wrap = wrap
            checked = checks.ranks_agree(context)
            found[name] = checked.passed, checked.message
        assert len(rows) == TINY.batch
    return found
