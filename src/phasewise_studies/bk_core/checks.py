"""What must hold of any right result, whatever computed it."""

from __future__ import annotations

import torch

from phasewise import CheckContext, Checked, Quantity
from phasewise_studies.bk_core.mixed_precision import WORST_ERROR
from phasewise_studies.bk_core.problem import Z, differentiated, is_backward, is_causal
from phasewise_studies.bk_core.reference import diagonal_causal, diagonal_dense, diagonal_ratio, gradient

# rounding of float32 on the bound itself
SLACK = 1e-5
# (batch, length) at which tails, single elements and lengths around powers of two are tried
ODD_SHAPES = ((1, 1), (3, 2), (1, 63), (130, 127), (3, 500))
LONG = 65_536
# corners of the user's document's range of batch 1 to 32 and length 128 to 2048
DOCUMENTED = ((1, 128), (32, 128), (1, 2048), (32, 2048))
# the document's number of random inputs, and a length at which complex64 determinants overflow
INPUTS, INPUT_LENGTH = 100, 128


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
    """The diagonal of the dense inverse in complex128, on short sequences."""
    # causal, each position is an inverse of its own
    longest = 24 if is_causal(context.case) else 96
    batch = _cut(context.inputs(19), 8, min(longest, context.shape.length))
    exact = diagonal_dense(batch["a"], batch["b"], batch["c"], Z)
    if is_causal(context.case):
        # the last entry of each leading block
        ends = range(1, exact.shape[1] + 1)
        blocks = [_cut(batch, len(exact), end) for end in ends]
        exact = torch.stack([diagonal_dense(part["a"], part["b"], part["c"], Z)[:, -1] for part in blocks], dim=1)
    found = context.run(context.build(), batch)["diagonal"].to(torch.complex128)
    return _judge(float((found - exact).abs().max()), 1e-5, "")


def odd_lengths(context: CheckContext) -> Checked:
    """Single elements, tails and lengths beside powers of two agree with complex128."""
    program = context.build(graph=False)
    batches = [_draw(rows, length, seed) for seed, (rows, length) in enumerate(ODD_SHAPES)]
    return _judge(max(_error(context, program, batch) for batch in batches), 1e-5, "")


def finite_when_long(context: CheckContext) -> Checked:
    """Finite and right at 65,536 elements; gradients against the analytic one in complex128."""
    batch = _draw(2, LONG, 23)
    if not is_backward(context.case):
        return _judge(_error(context, context.build(graph=False), batch), 1e-5, f" at {LONG} elements")
    # all ones: dL/dG of the sum of all real parts
    batch["upstream"] = torch.stack((torch.ones_like(batch["a"]), torch.zeros_like(batch["a"])), dim=-1)
    found = context.run(context.build(graph=False), batch)["grad/a"].double()
    exact, _, _ = gradient(batch["a"], batch["b"], batch["c"], Z, torch.view_as_complex(batch["upstream"]))
    error = float(((found - exact).abs().max() / exact.abs().max()).nan_to_num(nan=float("inf")))
    return _judge(error, 1e-5, f" of the largest gradient at {LONG} elements")


def documented_sizes(context: CheckContext) -> Checked:
    """The document's batches and lengths, through the graph where there is one."""
    program = context.build()
    batches = [_draw(rows, length, 29 + seed) for seed, (rows, length) in enumerate(DOCUMENTED)]
    return _judge(max(_error(context, program, batch) for batch in batches), 1e-5, "")


def hundred_inputs(context: CheckContext) -> Checked:
    """The document's criterion: an error below 1e-4 on 100 random inputs."""
    generator = torch.Generator().manual_seed(31)
    a, b, c = (
        torch.rand(INPUTS, length, dtype=torch.float64, generator=generator)
        for length in (INPUT_LENGTH, INPUT_LENGTH - 1, INPUT_LENGTH - 1)
    )
    # half of them in the document's range, half in the wide one of its tests
    a = torch.cat((6 * a[: INPUTS // 2] - 5, 200 * a[INPUTS // 2 :] - 100))
    batch = {"a": a, "b": 0.5 + b, "c": 0.5 + c}
    return _judge(_error(context, context.build(), batch), WORST_ERROR, f" on {INPUTS} inputs")


def blind_to_the_future(context: CheckContext) -> Checked:
    """A changed position changes nothing before it, to the last bit, and something from it on."""
    program = context.build(graph=False)
    batch = dict(context.inputs(37))
    before = context.run(program, batch)["diagonal"]
    at = context.shape.length // 3
    batch["a"] = batch["a"].clone()
    batch["a"][:, at] += 1
    after = context.run(program, batch)["diagonal"]
    leaks = int((torch.view_as_real(after[:, :at]) != torch.view_as_real(before[:, :at])).sum())
    moves = bool((after[:, at] != before[:, at]).all())
    return Checked(
        passed=leaks == 0 and moves,
        message=f"{leaks} earlier values changed with position {at}",
        numbers={"earlier values that changed": Quantity(value=leaks)},
    )


def true_gradient(context: CheckContext) -> Checked:
    """The gradient of the dense inverse by autograd in complex128, on sequences cut to 64 elements."""
    length = min(64, context.shape.length)
    batch = _cut(context.inputs(41), 4, length)
    names = differentiated(context.shape)
    operands = {name: batch[name].clone().requires_grad_(name in names) for name in ("a", "b", "c")}
    found = context.run(context.build(), batch)
    diagonal = diagonal_dense(operands["a"], operands["b"], operands["c"], Z)
    exact = torch.autograd.grad(diagonal, [operands[name] for name in names], torch.view_as_complex(batch["upstream"]))
    worst = max(
        float((found[f"grad/{name}"].double() - grad).abs().max() / grad.abs().max())
        for name, grad in zip(names, exact, strict=True)
    )
    return _judge(worst, 1e-5, " of the largest entry")


def _error(context: CheckContext, program, batch: dict[str, torch.Tensor]) -> float:
    found = context.run(program, batch)["diagonal"].to(torch.complex128)
    exact = (diagonal_causal if is_causal(context.case) else diagonal_ratio)(batch["a"], batch["b"], batch["c"], Z)
    return float((found - exact).abs().max().nan_to_num(nan=float("inf")))


def _judge(error: float, allowed: float, where: str) -> Checked:
    return Checked(
        passed=error <= allowed,
        message=f"largest error {error:.1e}{where}",
        numbers={"largest error": Quantity(value=error)},
    )


def _cut(batch, rows: int, length: int) -> dict[str, torch.Tensor]:
    found = {}
    for name, part in batch.items():
        end = length - 1 if name in ("b", "c") else length
        found[name] = (part[:end] if part.dim() == 1 else part[:rows, :end]).contiguous()
    return found


def _draw(rows: int, length: int, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a = -2 + 3 * (2 * torch.rand(rows, length, dtype=torch.float64, generator=generator) - 1)
    b = 0.75 + 0.5 * torch.rand(max(length - 1, 0), dtype=torch.float64, generator=generator)
    return {"a": a, "b": b, "c": b.flip(0)}
