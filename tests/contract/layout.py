"""A phase that changes the layout of its input: placing it is part of the step, outputs come back canonical."""

from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Workload


@dataclass(frozen=True)
class Switches:
    channels_last: bool = False


def make_inputs(case, shape, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return {"points": torch.rand(shape.n, 3, dtype=torch.float64, generator=generator)}


def build(switches, inputs, case, shape, device):
    if not switches.channels_last:
        return Program(
            step=lambda batch: {"length": batch["points"].square().sum(1).sqrt(), "twice": batch["points"] * 2}
        )

    def place(batch):
        return batch["points"].T.contiguous().to(device).float()

    def step(columns):
        x, y, z = columns
        return (x * x + y * y + z * z).sqrt(), columns * 2

    def outputs(raw):
        return {"length": raw[0], "twice": raw[1].T}

    return Program(step=step, place=place, outputs=outputs)


workload = Workload(
    summary="Lengths of vectors, stored by point or by coordinate",
    switches=Switches,
    cases={"points": Case(tiny=Shape(n=4096))},
    phases=(Phase("columns", {"channels_last": True}, because=Idea("three contiguous streams"), expect=(0.8, 3.0)),),
)
