"""A sampler: its uniforms come with the inputs, and its counts are state."""

from dataclasses import dataclass

from phasewise import Case, Check, Phase, Program, Shape, Workload


@dataclass(frozen=True)
class Switches:
    search: bool = False


def make_inputs(case, shape, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    weights = torch.Generator().manual_seed(7)
    return {
        "uniform": torch.rand(shape.draws, dtype=torch.float64, generator=generator),
        "weight": torch.rand(shape.kinds, dtype=torch.float64, generator=weights),
    }


def build(switches, inputs, case, shape, device):
    import torch

    counts = torch.zeros(shape.kinds, dtype=torch.int64, device=device)

    def place(batch):
        # cumulative sums are compared with uniforms: in float32 a draw could fall on the other side of a bound
        return {name: tensor.to(device) for name, tensor in batch.items()}

    def step(batch):
        bounds = (batch["weight"] / batch["weight"].sum()).cumsum(0)
        if switches.search:
            drawn = torch.searchsorted(bounds, batch["uniform"]).clamp_max(shape.kinds - 1)
        else:
            drawn = (batch["uniform"][:, None] > bounds[None, :]).sum(1).clamp_max(shape.kinds - 1)
        counts.add_(torch.bincount(drawn, minlength=shape.kinds))
        return {"drawn": drawn}

    return Program(
        step=step, place=place, state=lambda: {"counts": counts}, load=lambda state: counts.copy_(state["counts"])
    )


def chi_square(context):
    """Counts over many draws agree with the weights."""
    from phasewise import Checked, Quantity

    program = context.build()
    batch = context.inputs(11)
    drawn = context.run(program, batch)["drawn"]
    expected = batch["weight"] / batch["weight"].sum() * len(drawn)
    counts = drawn.bincount(minlength=len(expected))
    statistic = float(((counts - expected).square() / expected).sum())
    # mean of chi-square is its degrees of freedom k, its standard deviation sqrt(2 k); six of them
    limit = len(expected) - 1 + 6 * (2 * (len(expected) - 1)) ** 0.5
    return Checked(passed=statistic < limit, message="", numbers={"statistic": Quantity(value=statistic)})


workload = Workload(
    summary="Draws from a discrete distribution",
    switches=Switches,
    cases={"draw": Case(tiny=Shape(draws=1024, kinds=64))},
    phases=(Phase("search", {"search": True}, because="excess-traffic", expect=(2, 50)),),
    checks=(Check("chi-square"),),
)
