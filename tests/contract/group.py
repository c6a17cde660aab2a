"""An arm that is a group of two processes (gloo): the slowest rank's time counts."""

from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Target, Work, Workload


@dataclass(frozen=True)
class Switches:
    ranks: int = 1


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def build(switches, inputs, case, shape, device):
    import torch
    import torch.distributed as group

    def place(batch):
        x = batch["x"].to(device, torch.get_default_dtype())
        return x.chunk(switches.ranks)[group.get_rank()] if switches.ranks > 1 else x

    def step(x):
        total = (x @ x.T).tanh().sum()
        group.all_reduce(total)
        return {"rows": torch.full((1,), float(shape.n), device=device), "total": total}

    return Program(step=step if switches.ranks > 1 else _alone(shape, device), place=place)


def _alone(shape, device):
    """The same sum of two diagonal blocks, one after the other."""
    import torch

    def step(x):
        total = sum((part @ part.T).tanh().sum() for part in x.chunk(2))
        return {"rows": torch.full((1,), float(shape.n), device=device), "total": total}

    return step


def work(case, shape):
    return Work(items=shape.n, flops=shape.n**2 * 128, item="rows")


workload = Workload(
    summary="Block sums on one or two processes",
    switches=Switches,
    cases={"sum": Case(tiny=Shape(n=512), scaling="strong")},
    phases=(Phase("two-ranks", {"ranks": 2}, because=Idea("two cores"), expect=(0.5, 2.0), keep=False),),
    targets=(Target("scaling_efficiency", minimum=0.1),),
)
