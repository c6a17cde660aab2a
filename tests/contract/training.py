"""A training step with optimizer state: parameters, moments and gradients are compared after three steps."""

from dataclasses import dataclass

from phasewise import Case, Check, Idea, Phase, Program, Risk, Shape, Target, Work, Workload

RATE, MOMENTUM = 1e-2, 0.9


@dataclass(frozen=True)
class Switches:
    foreach: bool = False
    accumulate: int = 1


def make_inputs(case, shape, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    draw = lambda *size: torch.randn(*size, dtype=torch.float64, generator=generator)  # noqa: E731
    parameters = torch.Generator().manual_seed(0)
    return {
        "x": draw(shape.batch, shape.width),
        "y": draw(shape.batch, 1),
        "w1": torch.randn(shape.width, shape.width, dtype=torch.float64, generator=parameters) / shape.width**0.5,
        "w2": torch.randn(shape.width, 1, dtype=torch.float64, generator=parameters) / shape.width**0.5,
    }


def build(switches, inputs, case, shape, device):
    import torch

    dtype = torch.get_default_dtype()
    weights = {name: inputs[name].to(device, dtype, copy=True).requires_grad_() for name in ("w1", "w2")}
    # by hand: constructing an optimizer of torch's imports its compiler, more than a second in each of some thirty processes
    moments = {name: torch.zeros_like(weight) for name, weight in weights.items()}

    def loss(x, y):
        return ((x @ weights["w1"]).tanh() @ weights["w2"] - y).square().mean()

    def step(batch):
        for weight in weights.values():
            weight.grad = None
        total = torch.zeros((), device=device)
        for x, y in zip(batch["x"].chunk(switches.accumulate), batch["y"].chunk(switches.accumulate), strict=True):
            part = loss(x, y) / switches.accumulate
            part.backward()
            total = total + part.detach()
        with torch.no_grad():
            update([weight.grad for weight in weights.values()])
        return {"loss": total}

    def update(gradients):
        if switches.foreach:
            torch._foreach_mul_(list(moments.values()), MOMENTUM)
            torch._foreach_add_(list(moments.values()), gradients)
            torch._foreach_add_(list(weights.values()), list(moments.values()), alpha=-RATE)
            return
        for weight, moment, gradient in zip(weights.values(), moments.values(), gradients, strict=True):
            moment.mul_(MOMENTUM).add_(gradient)
            weight.add_(moment, alpha=-RATE)

    def place(batch):
        return {name: batch[name].to(device, dtype) for name in ("x", "y")}

    def state():
        gradients = {
            name: torch.zeros_like(weight) if weight.grad is None else weight.grad for name, weight in weights.items()
        }
        return {
            **weights,
            **{f"moment/{name}": moment for name, moment in moments.items()},
            **{f"grad/{name}": gradient for name, gradient in gradients.items()},
        }

    def load(tensors):
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(tensors[name])
                moments[name].copy_(tensors[f"moment/{name}"])

    return Program(step=step, place=place, state=state, load=load)


def work(case, shape):
    flops = 6 * shape.batch * shape.width * (shape.width + 1)
    return Work(items=shape.batch, flops=flops, bytes=4 * shape.batch * (shape.width + 1), item="rows")


workload = Workload(
    summary="One step of a small regression with momentum",
    switches=Switches,
    cases={"train-step": Case(tiny=Shape(batch=64, width=32))},
    phases=(
        Phase(
            "foreach",
            {"foreach": True},
            because="optimizer-not-fused",
            expect=(1.0, 1.5),
            risks=(Risk("Resume differs", "low", "high", mitigation="load and state are one pair", check="resume"),),
        ),
        Phase("accumulate", {"accumulate": 4}, because=Idea("a quarter of the activations"), keep=False),
    ),
    checks=(Check("resume", when="final"),),
    targets=(Target("items_per_s", minimum=1.0),),
)
