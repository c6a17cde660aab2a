"""A training step with optimizer state: parameters, moments and gradients are compared after three steps."""

from dataclasses import dataclass

from phasewise import Case, Check, Idea, Phase, Program, Risk, Shape, Target, Work, Workload


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
    optimizer = torch.optim.AdamW(weights.values(), lr=1e-2, foreach=switches.foreach)

    def loss(x, y):
        return ((x @ weights["w1"]).tanh() @ weights["w2"] - y).square().mean()

    def step(batch):
        optimizer.zero_grad()
        total = torch.zeros((), device=device)
        for x, y in zip(batch["x"].chunk(switches.accumulate), batch["y"].chunk(switches.accumulate), strict=True):
            part = loss(x, y) / switches.accumulate
            part.backward()
            total = total + part.detach()
        optimizer.step()
        return {"loss": total}

    def place(batch):
        return {name: batch[name].to(device, dtype) for name in ("x", "y")}

    def state():
        found = dict(weights)
        for name, weight in weights.items():
            held = optimizer.state.get(weight, {})
            found[f"moment/{name}"] = held.get("exp_avg", torch.zeros_like(weight))
            found[f"square/{name}"] = held.get("exp_avg_sq", torch.zeros_like(weight))
            found[f"steps/{name}"] = held.get("step", torch.zeros(()))
            found[f"grad/{name}"] = torch.zeros_like(weight) if weight.grad is None else weight.grad
        return found

    def load(tensors):
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(tensors[name])
                optimizer.state[weight] = {
                    "exp_avg": tensors[f"moment/{name}"].to(device, dtype, copy=True),
                    "exp_avg_sq": tensors[f"square/{name}"].to(device, dtype, copy=True),
                    "step": tensors[f"steps/{name}"].to(dtype=torch.float32, copy=True),
                }

    return Program(step=step, place=place, state=state, load=load)


def work(case, shape):
    flops = 6 * shape.batch * shape.width * (shape.width + 1)
    return Work(items=shape.batch, flops=flops, bytes=4 * shape.batch * (shape.width + 1), item="rows")


workload = Workload(
    summary="One AdamW step of a small regression",
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
