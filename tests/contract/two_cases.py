"""Two cases, and a phase that applies to one of them only."""

from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Workload


@dataclass(frozen=True)
class Switches:
    vectorised: bool = False
    inplace: bool = False


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def build(switches, inputs, case, shape, device):
    import torch

    def rows(batch):
        if switches.vectorised:
            return {"norm": batch["x"].norm(dim=1)}
        return {"norm": torch.stack([row.norm() for row in batch["x"]])}

    def scale(batch):
        if switches.inplace:
            return {"scaled": batch["x"].mul(2).add_(1)}
        return {"scaled": batch["x"] * 2 + 1}

    return Program(step=rows if case == "rows" else scale)


workload = Workload(
    summary="Row norms, and a scaling",
    switches=Switches,
    cases={"rows": Case(tiny=Shape(n=128)), "scale": Case(tiny=Shape(n=4096), inputs="resident")},
    phases=(
        Phase("vectorised", {"vectorised": True}, because="serial-loop", expect=(2, 50), cases=("rows",)),
        Phase("inplace", {"inplace": True}, because=Idea("one temporary fewer"), expect=(1.0, 1.5), cases=("scale",)),
    ),
)
