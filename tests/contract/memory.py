"""A phase that runs where its parent runs out of (capped) memory."""

from dataclasses import dataclass

from phasewise import Case, Phase, Program, Shape, Target, Workload


@dataclass(frozen=True)
class Switches:
    product: bool = False


def make_inputs(case, shape, seed):
    import torch

    return {"x": torch.rand(shape.n, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))}


def reference(inputs, case, shape, items=None):
    return Program(step=lambda batch: {"sum": _sum_expanded(batch["x"])})


def _sum_expanded(x):
    # sum over j of |x_i|^2 - 2 x_i x_j + |x_j|^2
    squares = x.square().sum(1)
    return len(x) * squares - 2 * x @ x.sum(0) + squares.sum()


def _sum_differences(x):
    import torch

    # one block that is used again: what malloc keeps of freed ones differs from run to run
    block = x.new_empty(len(x), *x.shape)
    torch.sub(x[:, None, :], x[None, :, :], out=block)
    return block.square_().sum((1, 2))


def _sum_product(x):
    squares = x.square().sum(1)
    return (x @ x.T).mul_(-2).add_(squares[:, None]).add_(squares).sum(1)


def build(switches, inputs, case, shape, device):
    form = _sum_product if switches.product else _sum_differences
    return Program(step=lambda batch: {"sum": form(batch["x"])})


workload = Workload(
    summary="Sums of all squared distances",
    switches=Switches,
    # all differences at once need 64 x 1024 x 1024 x 4 bytes = 268 MB; a process itself grows by tens of MB while it runs
    cases={"pairs": Case(tiny=Shape(n=1024), steps=1, memory_limit_bytes={"tiny": 200_000_000})},
    phases=(Phase("product", {"product": True}, because="memory-capacity"),),
    targets=(Target("peak_memory_bytes", minimum=4e9),),
)
