"""A chain of 300 phases, each with a switch of its own: what is planned and asked of Snakemake grows with it, and not with its square."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from graph.projects import make_project, snakemake, surroundings

CHAIN = """
from dataclasses import field, make_dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Workload

COUNT = {count}


def make_inputs(case, shape, seed):
    import torch

    return {{"x": torch.ones(shape.n, dtype=torch.float64)}}


def build(switches, inputs, case, shape, device):
    return Program(step=lambda batch: {{"y": batch["x"] * 2}})


workload = Workload(
    summary="A chain",
    switches=make_dataclass("Switches", [(f"s{{n}}", bool, field(default=False)) for n in range(COUNT)], frozen=True),
    cases={{"one": Case(tiny=Shape(n=4))}},
    phases=tuple(Phase(f"p{{n}}", {{f"s{{n}}": True}}, because=Idea("a chain")) for n in range(COUNT)),
)
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a dry run took."""

    # of the plan of the run, which all its pages are made from
    plan_bytes: int
    cpu_s: float
    memory_bytes: int


def dry_run(folder, count) -> Cost:
    project = make_project(folder, {"chain": CHAIN.format(count=count)})
    command = [sys.executable, "-m", *snakemake(folder), "-n", "--quiet", "all"]
    process = subprocess.Popen(command, cwd=folder, env=surroundings(folder), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    plan = project.records("chain") / "plan.json"
    return Cost(plan_bytes=plan.stat().st_size, cpu_s=used.ru_utime + used.ru_stime, memory_bytes=used.ru_maxrss * 1024)


@pytest.mark.slow
def test_a_chain_costs_in_proportion_to_its_phases(tmp_path):
    short, long = dry_run(tmp_path / "short", 100), dry_run(tmp_path / "long", 300)
    assert long.plan_bytes < 3.5 * short.plan_bytes
    assert long.cpu_s < 3.5 * short.cpu_s
    assert long.memory_bytes < 300_000_000
