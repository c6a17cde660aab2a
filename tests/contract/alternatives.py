"""Alternatives that are measured and not kept, and one that the gate has to refuse."""

from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Workload


@dataclass(frozen=True)
class Switches:
    form: str = "loop"
    half: bool = False


def make_inputs(case, shape, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(shape.n, shape.n, dtype=torch.float64, generator=generator)  # noqa: E731
    return {"a": draw(), "b": draw()}


def build(switches, inputs, case, shape, device):
    import torch

    def step(batch):
        a, b = batch["a"], batch["b"]
        if switches.half:
            return {"product": (a.bfloat16() @ b.bfloat16()).to(a.dtype)}
        if switches.form == "einsum":
            return {"product": torch.einsum("ij,jk->ik", a, b)}
        if switches.form == "matmul":
            return {"product": a @ b}
        return {"product": torch.stack([row @ b for row in a])}

    return Program(step=step)


workload = Workload(
    summary="A matrix product, said in three ways",
    switches=Switches,
    cases={"product": Case(tiny=Shape(n=96))},
    phases=(
        Phase("einsum", {"form": "einsum"}, because="serial-loop", expect=(1.5, 30), keep=False),
        Phase("matmul", {"form": "matmul"}, because="serial-loop", expect=(1.5, 30)),
        Phase("half", {"half": True}, because=Idea("half the bytes"), keep=False, must="INVALID"),
    ),
)
