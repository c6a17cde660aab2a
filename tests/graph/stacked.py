"""Row sums in four forms: two phases on one another, and one beside them. The tests copy this file and edit the copy."""

from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Risk, Shape, Target, Workload


@dataclass(frozen=True)
class Switches:
    vectorised: bool = False
    block: int = 0
    doubled: bool = False


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def build(switches: Switches, inputs, case, shape, device):
    # an empty comment
    def step(batch):
        if switches.doubled:
            return {"sum": sum_doubled(batch["x"])}
        if switches.block:
            return {"sum": sum_blocks(batch["x"], switches.block)}
        if switches.vectorised:
            return {"sum": sum_rows(batch["x"])}
        return {"sum": sum_each(batch["x"])}

    return Program(step=step)


def sum_each(x):
    import torch

    return torch.stack([row.sum() for row in x])


def sum_rows(x):
    return x.sum(1)


def sum_blocks(x, rows):
    import torch

    return torch.cat([part.sum(1) for part in x.split(rows)])


def sum_doubled(x):
    return (x + x).sum(1) / 2


workload = Workload(
    summary="Row sums",
    switches=Switches,
    cases={"rows": Case(tiny=Shape(n=128))},
    phases=(
        Phase("vectorised", {"vectorised": True}, because="serial-loop", expect=(2, 50)),
        Phase(
            "blocked",
            {"block": 64},
            because=Idea("smaller pieces"),
            risks=(Risk("Results change between repeats", "low", "high", check="bitwise-repeatable"),),
        ),
        Phase("doubled", {"doubled": True}, because=Idea("to be beside the stack"), keep=False),
    ),
    targets=(Target("speedup", against="baseline", minimum=1.0),),
)
