"""Phases that die, raise, hang and compute nonsense, one that does none of it, and markup wherever a text may stand."""

from dataclasses import dataclass
from pathlib import Path

from phasewise import Case, Check, Idea, Phase, Program, Risk, Shape, Target, Workload

MARKUP = "</script><script>alert(1)</script>"


@dataclass(frozen=True)
class Switches:
    fault: str = ""
    vectorised: bool = False


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def reference(inputs, case, shape, items=None):
    return Program(step=lambda batch: {"sum": batch["x"].sum(1)})


def build(switches, inputs, case, shape, device):
    import os
    import signal
    import time

    import torch

    if switches.fault == "raises":
        raise ValueError(f"no such layout: {MARKUP}")

    def step(batch):
        if switches.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if switches.fault == "aborts":
            os.abort()
        if switches.fault == "hangs":
            Path("hanging").touch()
            time.sleep(3600)
        if switches.fault == "nonsense":
            return {"sum": batch["x"].sum(1) * float("nan")}
        if switches.vectorised:
            return {"sum": batch["x"].sum(1)}
        return {"sum": torch.stack([row.sum() for row in batch["x"]])}

    return Program(step=step)


def talkative(context):
    """Passes, and says so with markup."""
    from phasewise import Chart, Checked, Quantity, Series

    line = Series(label=MARKUP, x=(0.0, 1.0), y=(0.0, 1.0))
    return Checked(
        passed=True,
        message=MARKUP,
        numbers={MARKUP: Quantity(value=1.0, unit=MARKUP)},
        chart=Chart(title=MARKUP, x_title=MARKUP, y_title=MARKUP, series=(line,)),
    )


workload = Workload(
    summary=f"Row sums {MARKUP}",
    switches=Switches,
    cases={"rows": Case(tiny=Shape(n=128))},
    phases=(
        Phase("killed", {"fault": "killed"}, because=Idea(MARKUP), keep=False),
        Phase("aborts", {"fault": "aborts"}, because=Idea(MARKUP), keep=False),
        Phase("raises", {"fault": "raises"}, because=Idea(MARKUP), keep=False),
        Phase("hangs", {"fault": "hangs"}, because=Idea(MARKUP), keep=False),
        Phase("nonsense", {"fault": "nonsense"}, because=Idea(MARKUP), keep=False),
        Phase(
            "vectorised",
            {"vectorised": True},
            because="serial-loop",
            method=MARKUP,
            risks=(
                Risk(MARKUP, "low", "high", symptom=MARKUP, mitigation=MARKUP, contingency=MARKUP, check="talkative"),
                Risk(MARKUP, "low", "high", by_hand=MARKUP),
            ),
        ),
    ),
    checks=(Check("talkative", when="final"),),
    targets=(Target("speedup", against="baseline", minimum=1.0, name=MARKUP),),
    considered={MARKUP: MARKUP},
)
