"""A workload whose table is prepared once and read by every later stage."""

from dataclasses import dataclass

from phasewise import Case, Phase, Program, Shape, Workload, data_folder


@dataclass(frozen=True)
class Switches:
    gather: bool = False


def prepare(folder):
    import numpy

    numpy.save(folder / "table.npy", numpy.sin(numpy.arange(1024) / 100))


def make_inputs(case, shape, seed):
    import numpy
    import torch

    generator = torch.Generator().manual_seed(seed)
    table = torch.from_numpy(numpy.load(data_folder() / "table.npy"))
    return {"table": table, "index": torch.randint(0, 1024, (shape.n,), generator=generator)}


def build(switches, inputs, case, shape, device):
    import torch

    def step(batch):
        if switches.gather:
            return {"value": batch["table"][batch["index"]]}
        return {"value": torch.stack([batch["table"][i] for i in batch["index"].tolist()])}

    return Program(step=step)


workload = Workload(
    summary="Looking values up in a prepared table",
    switches=Switches,
    cases={"lookup": Case(tiny=Shape(n=512))},
    phases=(Phase("gather", {"gather": True}, because="serial-loop", expect=(5, 200)),),
)
