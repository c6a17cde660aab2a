"""A phase that runs where its parent runs out of (capped) memory."""

from dataclasses import dataclass

from phasewise import Case, Phase, Program, Shape, Target, Workload


@dataclass(frozen=True)
class Switches:
    rows: int = 0


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def reference(inputs, case, shape, items=None):
    return Program(step=lambda batch: {"sum": _sum(batch["x"], 256)})


def _sum(x, rows):
    import torch

    # one block that is used again: what malloc keeps of freed ones differs from run to run
    block = x.new_empty(rows or len(x), *x.shape)
    sums = []
    for part in x.split(len(block)):
        torch.sub(part[:, None, :], x[None, :, :], out=block)
        sums.append(block.square_().sum((1, 2)))
    return torch.cat(sums)


def build(switches, inputs, case, shape, device):
    return Program(step=lambda batch: {"sum": _sum(batch["x"], switches.rows)})


workload = Workload(
    summary="Sums of all squared distances",
    switches=Switches,
    # all pairs at once need 4 x 4096 x 4096 x 4 bytes = 268 MB; a process itself grows by tens of MB while it runs
    cases={"pairs": Case(tiny=Shape(n=4096), steps=1, memory_limit_bytes={"tiny": 200_000_000})},
    phases=(Phase("by-rows", {"rows": 64}, because="memory-capacity"),),
    targets=(Target("peak_memory_bytes", minimum=4e9),),
)
