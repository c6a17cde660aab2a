"""A check that returns numbers with units and a chart, and a target on one of those numbers."""

from dataclasses import dataclass

from phasewise import Case, Check, Phase, Program, Risk, Shape, Target, Workload


@dataclass(frozen=True)
class Switches:
    fused: bool = False


def make_inputs(case, shape, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return {
        "position": torch.rand(shape.n, dtype=torch.float64, generator=generator),
        "speed": torch.rand(shape.n, dtype=torch.float64, generator=generator),
    }


def build(switches, inputs, case, shape, device):
    import torch

    def step(batch):
        position, speed = batch["position"], batch["speed"]
        for _ in range(shape.steps):
            if switches.fused:
                speed = torch.add(speed, position, alpha=-0.01)
                position = torch.add(position, speed, alpha=0.01)
            else:
                speed = speed - 0.01 * position
                position = position + 0.01 * speed
        return {"position": position, "speed": speed}

    return Program(step=step)


def energy_drift(context):
    """The symplectic oscillator keeps its energy to the square of its step."""
    from phasewise import Chart, Checked, Quantity, Series

    program = context.build()
    batch = dict(context.inputs(3))
    energies = []
    for _ in range(8):
        energies.append(float((batch["position"].square() + batch["speed"].square()).mean()))
        batch = {name: tensor.double() for name, tensor in context.run(program, batch).items()}
    drift = max(abs(energy / energies[0] - 1) for energy in energies)
    return Checked(
        passed=drift < 0.02,
        message=f"energy stays within {drift:.1e}",
        numbers={"drift": Quantity(value=drift, unit="")},
        chart=Chart(
            title="Energy",
            x_title="window",
            y_title="energy",
            series=(Series(label="oscillator", x=tuple(map(float, range(8))), y=tuple(energies)),),
        ),
    )


workload = Workload(
    summary="Oscillators, stepped forward",
    switches=Switches,
    cases={"window": Case(tiny=Shape(n=2048, steps=50))},
    phases=(
        Phase(
            "fused",
            {"fused": True},
            because="fusible-chain",
            expect=(1.2, 2.5),
            risks=(
                Risk("Energy drifts", "low", "high", check="energy-drift"),
                Risk("Users notice", 10, "low", by_hand="nobody can check that here"),
            ),
        ),
    ),
    checks=(Check("energy-drift"),),
    targets=(Target("drift", better="lower", minimum=0.02, target=0.01),),
)
