"""A baseline too slow for the real size: measured at smaller shapes."""

from dataclasses import dataclass

from phasewise import Case, Phase, Program, Shape, Work, Workload


@dataclass(frozen=True)
class Switches:
    vectorised: bool = False
    squared: bool = False


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def reference(inputs, case, shape, items=None):
    return Program(step=lambda batch: {"norm": batch["x"].norm(dim=1)})


def build(switches, inputs, case, shape, device):
    import torch

    def step(batch):
        if switches.squared:
            return {"norm": batch["x"].square().sum(1).sqrt()}
        if switches.vectorised:
            return {"norm": batch["x"].norm(dim=1)}
        return {"norm": torch.stack([row.norm() for row in batch["x"]])}

    return Program(step=step)


def work(case, shape):
    return Work(items=shape.n, flops=32 * shape.n, bytes=68 * shape.n, item="rows")


workload = Workload(
    summary="Row norms, one by one or at once",
    switches=Switches,
    cases={
        "rows": Case(
            tiny=Shape(n=20_000), steps=1, inputs="resident", baseline_at={"tiny": (Shape(n=2000), Shape(n=4000))}
        )
    },
    phases=(
        Phase("vectorised", {"vectorised": True}, because="serial-loop", expect=(10, 1000)),
        Phase("squared", {"squared": True}, because="repeated-work", expect=(0.5, 2)),
    ),
)
