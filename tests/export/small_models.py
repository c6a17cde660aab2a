"""A workload of one phase whose cases are modules that exports have to cope with."""

import os
from dataclasses import dataclass

from phasewise import Case, Idea, Phase, Program, Shape, Unsupported, Workload

ROWS = 4


@dataclass(frozen=True)
class Switches:
    wide: bool = False


def make_inputs(case, shape, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    rows = ROWS + seed if case == "growing" else ROWS
    return {
        "y": torch.rand(rows, 8, dtype=torch.float64, generator=generator),
        "x": torch.rand(rows, 8, dtype=torch.float64, generator=generator),
    }


def build(switches, inputs, case, shape, device):
    import torch

    if case == "refused":
        raise Unsupported("no such kernel here")
    if case == "crash":
        os.abort()
    if case == "none":
        return Program(step=lambda batch: batch["x"])
    module = {
        "mlp": Mlp, "growing": Mlp, "custom": Custom, "complex": Complex, "branching": Branching, "spectral": Spectral,
        "force": Force, "trap": Trap,
    }[case]()  # fmt: skip
    if case == "complex":
        return Program(
            step=module, place=lambda batch: torch.complex(batch["x"].float(), batch["y"].float()), module=module
        )
    return Program(step=lambda batch: module(**batch), module=module)


try:
    import torch
except ImportError:
    torch = None

if torch is not None:

    class Mlp(torch.nn.Module):
        """Two linear layers with a GELU between; weights from a seed of their own."""

        def __init__(self):
            super().__init__()
            generator = torch.Generator().manual_seed(7)
            self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
            with torch.no_grad():
                for parameter in self.parameters():
                    parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.5)

        def forward(self, x, y):
            hidden = self.second(torch.nn.functional.gelu(self.first(x)))
            return {"out": hidden - y[:, :4], "parts": (hidden.sum(), y * 2)}

    @torch.library.custom_op("phasewise_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    class Custom(torch.nn.Module):
        """Calls an operator that only this file registers."""

        def forward(self, x, y):
            return twice(x) + y

    class Complex(torch.nn.Module):
        """Complex in, complex out."""

        def forward(self, z):
            return z * z.conj() + 1j

    class Spectral(torch.nn.Module):
        """Complex only inside."""

        def forward(self, x, y):
            return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(y))

    class Branching(torch.nn.Module):
        """Its path depends on the data."""

        def forward(self, x, y):
            return x + y if x.sum() > 0 else x - y

    class Trap(torch.nn.Module):
        """Takes down the process that captures it."""

        def forward(self, x, y):
            if torch.compiler.is_exporting():
                os.abort()
            return x + y

    class Force(torch.nn.Module):
        """Differentiates its own energy."""

        def forward(self, x, y):
            with torch.enable_grad():
                positions = x.detach().requires_grad_(True)
                energy = (positions**3 * y).sum()
                (gradient,) = torch.autograd.grad(energy, positions)
            return {"energy": energy.detach(), "force": -gradient}


CASES = ("mlp", "growing", "custom", "complex", "spectral", "branching", "force", "none", "refused", "crash", "trap")

workload = Workload(
    summary="Small modules for exports",
    switches=Switches,
    cases={name: Case(tiny=Shape(n=8)) for name in CASES},
    phases=(Phase("wide", {"wide": True}, because=Idea("to have one")),),
)
