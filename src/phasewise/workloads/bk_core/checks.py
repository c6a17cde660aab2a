"""What must hold of any right result, whatever computed it."""

from __future__ import annotations

import torch

from phasewise import CheckContext, Checked, Quantity
from phasewise.workloads.bk_core.program import Z
from phasewise.workloads.bk_core.reference import diagonal_dense, diagonal_ratio

# rounding of float32 on the bound itself
SLACK = 1e-5
# (batch, length) at which tails, single elements and lengths around powers of two are tried
ODD_SHAPES = ((1, 1), (3, 2), (1, 63), (130, 127), (3, 500))
LONG = 65_536


def bounded(context: CheckContext) -> Checked:
    """Im G > 0 and |G| <= 1 / eta: the no-breakdown theorem."""
    program = context.build()
    diagonal = context.run(program, context.inputs(17))["diagonal"]
    largest, smallest = float(diagonal.abs().max()) * Z.imag, float(diagonal.imag.min())
    return Checked(
        passed=largest <= 1 + SLACK and smallest > 0,
        message=f"|G| eta reaches {largest:.6f}, Im G stays above {smallest:.2e}",
        numbers={"largest |G| eta": Quantity(value=largest), "smallest Im G": Quantity(value=smallest)},
    )


def dense_inverse(context: CheckContext) -> Checked:
    """The diagonal of the dense inverse in complex128, on sequences cut to 96 elements."""
    program = context.build()
    batch = _cut(context.inputs(19), 8, min(96, context.shape.length))
    found = context.run(program, batch)["diagonal"].to(torch.complex128)
    exact = diagonal_dense(batch["a"], batch["b"], batch["c"], Z)
    error = float((found - exact).abs().max())
    return Checked(
        passed=error <= 1e-5, message=f"largest error {error:.1e}", numbers={"largest error": Quantity(value=error)}
    )


def odd_lengths(context: CheckContext) -> Checked:
    """Single elements, tails and lengths beside powers of two agree with complex128."""
    program = context.build(graph=False)
    worst = 0.0
    for seed, (rows, length) in enumerate(ODD_SHAPES):
        batch = _draw(rows, length, seed)
        found = context.run(program, batch)["diagonal"].to(torch.complex128)
        error = (found - diagonal_ratio(batch["a"], batch["b"], batch["c"], Z)).abs().max()
        worst = max(worst, float(error.nan_to_num(nan=float("inf"))))
    return Checked(
        passed=worst <= 1e-5, message=f"largest error {worst:.1e}", numbers={"largest error": Quantity(value=worst)}
    )


def finite_when_long(context: CheckContext) -> Checked:
    """Finite and right at 65,536 elements."""
    program = context.build(graph=False)
    batch = _draw(2, LONG, 23)
    found = context.run(program, batch)["diagonal"].to(torch.complex128)
    error = float((found - diagonal_ratio(batch["a"], batch["b"], batch["c"], Z)).abs().max())
    return Checked(
        passed=bool(found.isfinite().all()) and error <= 1e-5,
        message=f"largest error {error:.1e} at {LONG} elements",
        numbers={"largest error": Quantity(value=error)},
    )


def _cut(batch, rows: int, length: int) -> dict[str, torch.Tensor]:
    couplings = {
        name: batch[name][: length - 1] if batch[name].dim() == 1 else batch[name][:rows, : length - 1]
        for name in ("b", "c")
    }
    return {
        "a": batch["a"][:rows, :length].contiguous(),
        **{name: part.contiguous() for name, part in couplings.items()},
    }


def _draw(rows: int, length: int, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a = -2 + 3 * (2 * torch.rand(rows, length, dtype=torch.float64, generator=generator) - 1)
    b = 0.75 + 0.5 * torch.rand(max(length - 1, 0), dtype=torch.float64, generator=generator)
    return {"a": a, "b": b, "c": b.flip(0)}
