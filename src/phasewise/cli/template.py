"""Sums of squares along rows: a workload in forty lines, to start your own from."""

from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Target, Work, Workload


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change; the defaults are the baseline."""

    vectorised: bool = False
    fused: bool = False


def make_inputs(case, shape, seed):
    """Canonical inputs: float64 tensors on the CPU; the same seed gives the same bits everywhere."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(shape.rows, shape.columns, dtype=torch.float64, generator=generator)}


def build(switches, inputs, case, shape, device):
    """From switches to a program; `step` is what is timed."""
    import torch

    def step(batch):
        if switches.fused:
            return {"sums": torch.einsum("rc,rc->r", batch["x"], batch["x"])}
        if switches.vectorised:
            return {"sums": (batch["x"] * batch["x"]).sum(1)}
        return {"sums": torch.stack([(row * row).sum() for row in batch["x"]])}

    return Program(step=step)


def work(case, shape):
    """What one step has to do at least: each input read once, each output written once."""
    size = shape.rows * shape.columns
    return Work(
        items=shape.rows, flops=2 * size, bytes=4 * (size + shape.rows), working_set_bytes=4 * size, item="rows"
    )


workload = Workload(
    summary="Sums of squares along rows",
    switches=Switches,
    cases={"rows": Case(tiny=Shape(rows=256, columns=512), full=Shape(rows=8192, columns=4096))},
    phases=(
        Phase("vectorised", {"vectorised": True}, because="serial-loop", expect=(5, 100)),
        Phase("fused", {"fused": True}, because=Idea("a product and its sum are one contraction"), expect=(1.0, 2.0)),
    ),
    targets=(Target("speedup", against="baseline", minimum=2, target=10),),
)
