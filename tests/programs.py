"""Programs of the worker tests: a small workload that can be told to misbehave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phasewise.records.plan import Allowance, Budget, Kind, PlannedCase, VariantPlan

SOURCE = """
import gc, os, signal, sys, time, traceback
from dataclasses import dataclass
import torch
from phasewise import Case, Phase, Program, Shape, Unsupported, Work, Workload

@dataclass(frozen=True)
class Switches:
    mode: str = "good"

workload = Workload(
    summary="A product of matrices", switches=Switches, cases={"only": Case(tiny=Shape(n=8))},
    phases=(Phase("other", {"mode": "other"}, because="launch-gaps"),),
)

def make_inputs(case, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.rand(shape.n, shape.n, generator=generator, dtype=torch.float64)}

def work(case, shape):
    return Work(items=shape.n)

def build(switches, inputs, case, shape, device):
    mode = switches.mode
    weight = torch.eye(shape.n, device=device)
    calls = {"step": 0, "load": 0}
    if mode == "unsupported":
        raise Unsupported("needs a newer world")
    if mode == "telling":
        with open("caches.txt", "a") as file:
            print(os.environ.get("TORCHINDUCTOR_CACHE_DIR", "shared"), file=file)
    if mode in ("litters", "toggles"):
        def tell(phase, found):
            with open("collected.txt", "a") as file:
                print(*(frame.name for frame in traceback.extract_stack()), file=file)
        gc.callbacks.append(tell)
    if mode == "greedy":
        weight = torch.zeros(1 << 28, device=device) + 1
    if mode == "group":
        import torch.distributed as dist
        assert dist.get_world_size() == 2

    def step(placed):
        calls["step"] += 1
        print("noise", flush=True)
        if mode == "raises" and calls["step"] == 3:
            raise RuntimeError("the third step is cursed")
        if mode == "killed" and calls["step"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "aborts" and calls["step"] == 3:
            print("last words", file=sys.stderr, flush=True)
            os.abort()
        if mode == "hangs" and calls["step"] == 3:
            time.sleep(600)
        if mode in ("litters", "toggles"):
            for _ in range(2000):
                node = []
                node.append(node)
        if mode == "drifts":
            weight.mul_(1.01)
        if mode == "group":
            total = placed["x"].clone()
            torch.distributed.all_reduce(total)
            return total
        return placed["x"] @ weight

    def load(state):
        weight.copy_(state["weight"])

    if mode == "toggles":
        def toggle(placed):
            gc.disable()
            try:
                return step(placed)
            finally:
                gc.enable()
        return Program(step=toggle)
    if mode == "restored":
        def step(placed):
            weight.mul_(1.01)
            return placed["x"] @ weight
        return Program(step=step, load=load, state=lambda: {"weight": weight})
    return Program(step=step)
"""


def write_program(folder: Path) -> None:
    """The workload as a file of a user."""
    (folder / "matrix.py").write_text(SOURCE)


def plan_program(
    mode: str = "good", *, ranks: int = 1, sets: int = 1, timeout_s: float = 60.0, **case: Any
) -> VariantPlan:
    """A plan of the workload in one mode."""
    return VariantPlan(
        protocol=1,
        workload="matrix",
        source="matrix.py",
        run="tiny-cpu",
        size="tiny",
        device="cpu",
        variant=f"00-{mode}",
        kind=Kind.BASELINE,
        ranks=ranks,
        cases=(PlannedCase(case="only", shape={"n": 8}, switches={"mode": mode}, **case),),
        tier="strict",
        allowance=Allowance(rtol=1e-5, atol=1e-6),
        budget=Budget(timeout_s=timeout_s, block_s=0.001, min_rounds=4, max_rounds=4, min_sets=sets, max_sets=sets),
        lock="",
        sources="",
    )
