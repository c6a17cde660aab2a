"""Run by test_bk_core_kernels.py in a process where Triton interprets: prints what each case gave, as JSON."""

from __future__ import annotations

import json

import torch

from phasewise_studies.bk_core import kernels, reference, scan
from phasewise_studies.bk_core.kernels import prepared
from phasewise_studies.bk_core.kernels.launch import Launch
from phasewise_studies.bk_core.program import place_aligned
from phasewise_studies.bk_core.tests.operands import draw_operands, relative_error

# length, batch and whether b and c are batched
SIZES = [
    (1, 5, False), (3, 3, True), (3, 5, False), (31, 3, True), (64, 3, False), (127, 3, True), (200, 1, False),
]  # fmt: skip
# a warp that walks a whole row, with the view ahead that a launch has by default
WALK = Launch(8, 3, 64)
# parts that look both ways
PARTS = Launch(4, 10, 12)

CPU = torch.device("cpu")
Operands = list[torch.Tensor]


def measure(
    operands: Operands, z: complex | torch.Tensor, *, causal: bool = False, launch: Launch | None = None
) -> dict[str, float | bool]:
    """Errors of the diagonal and of its gradient against float64, and whether the theorem's bounds hold."""
    a, b, c = operands
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), z, causal=causal)
    result = kernels.diagonal(a, b, c, z, causal=causal, launch=launch)
    upstream = torch.view_as_complex(torch.randn(*a.shape, 2, generator=torch.Generator().manual_seed(3)))
    found = kernels.gradient(a, b, c, z, upstream, causal=causal, launch=launch)
    wanted = kernels.gradient(
        a.double(), b.double(), c.double(), z, upstream.to(torch.complex128), causal=causal, launch=launch
    )
    eta = z.imag[:, None] if isinstance(z, torch.Tensor) else z.imag
    return {
        "error": relative_error(result, exact),
        "gradient": max(_norm_error(part, whole) for part, whole in zip(found, wanted, strict=True)),
        "bounded": bool(((result.imag > 0) & (result.abs() <= (1 + 1e-5) / eta)).all()),
    }


def main() -> None:
    """Measure all cases."""
    found: dict[str, dict[str, float | bool]] = {}
    for length, batch, batched in SIZES:
        operands = draw(batch, length, batched=batched)
        name = f"{batch}x{length}-{'batched' if batched else 'shared'}"
        found[name] = measure(operands, 1j)
        if length in (3, 64):
            found[f"{name}-causal"] = measure(operands, 1j, causal=True)
            found[f"{name}-sharp"] = measure(operands, 0.3 + 0.05j)
    for name, launch in (("walk", WALK), ("parts", PARTS), ("chunk-16", Launch(16, 2, 64))):
        long = draw(1, 600 if launch.chunk == 16 else 301)
        found[name] = measure(long, 1j, launch=launch)
        found[f"{name}-causal"] = measure(long, 1j, causal=True, launch=launch)
    # little is forgotten: the view ahead does not do, and the row is done over
    found["unproven"] = measure(draw(1, 301), 0.3j, launch=WALK)
    found["wide"] = measure(draw(2, 127, documented=False), 0.3j)
    found["shift-by-row"] = measure(draw(2, 60), torch.tensor([1j, 0.2 + 0.6j]).to(torch.complex64))
    a, b, c = draw(3, 127)
    found["strided"] = measure([a.T.contiguous().T, b.repeat_interleave(2)[::2], c], 1j)
    found["prepared"] = measure_prepared(a, b, c)
    found["prepared-gradient"] = measure_prepared_gradient(a, b, c)
    found["aligned"] = measure(
        [*place_aligned(dict(zip("abc", draw(3, 62, batched=True), strict=True)), CPU).values()], 1j
    )
    found["negative-couplings"] = measure_negative(a, b, -c)
    found["nan"] = measure_nan(a, b, c)
    empty = kernels.diagonal(a[:0], b, c, 1j)
    found["empty"] = {"right": empty.shape == (0, 127) and empty.dtype == torch.complex64}
    double = [operand.double() for operand in (a, b, c)]
    same = torch.equal(kernels.diagonal(*double, 1j), reference.diagonal_ratio(*double, 1j))
    found["float64"] = {"right": same}
    print(json.dumps(found))


def draw(batch: int, length: int, *, batched: bool = False, documented: bool = True) -> Operands:
    """Operands in float32."""
    return [part.float() for part in draw_operands(batch, length, batched=batched, documented=documented)]


def measure_negative(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> dict[str, float | bool]:
    """No theorem holds for couplings below 0: the kernel is held to what the plain recursion loses."""
    exact = reference.diagonal_ratio(a.double(), b.double(), c.double(), 1j)
    plain = relative_error(reference.diagonal_ratio(a, b, c, 1j), exact)
    error = relative_error(kernels.diagonal(a, b, c, 1j, launch=PARTS), exact)
    return {"right": error < max(2e-6, 8 * plain), "plain": plain, "kernel": error}


def measure_prepared(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> dict[str, float | bool]:
    """Whether a prepared launch answers from its operands' values, and operands that lie elsewhere in the usual way."""
    run = prepared.prepare_diagonal(a, b, c, 1j)
    others = ([a + 1, b, c], [a[:, 1:], b[1:], c[1:]], [a[:2].double(), b.double(), c.double()])
    return {"right": all(torch.equal(run(*operands), kernels.diagonal(*operands, 1j)) for operands in others)}


def measure_prepared_gradient(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> dict[str, float | bool]:
    """The same of the gradient, for a alone and with batched couplings; shared ones always take the usual way."""
    pairs = torch.randn(*a.shape, 2, generator=torch.Generator().manual_seed(4))
    right = True
    batched = [part.expand_as(a[:, 1:]) for part in (b, c)]
    for couplings, (upper, lower) in ((False, (b, c)), (True, (b, c)), (True, batched)):
        run = prepared.prepare_gradient(a, upper, lower, 1j, pairs, couplings=couplings)
        for operands in ([a + 1, upper, lower, 2 * pairs], [a[:, 1:], upper[..., 1:], lower[..., 1:], pairs[:, 1:]]):
            wanted = kernels.gradient(
                *operands[:3], 1j, torch.view_as_complex(operands[3].contiguous()), couplings=couplings, shift=False
            )
            found = run(*operands)
            right &= all(torch.equal(*both) for both in zip(found, filter(_is_there, wanted), strict=True))
    return {"right": right}


def _is_there(part: torch.Tensor | None) -> bool:
    return part is not None


def measure_nan(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> dict[str, float | bool]:
    """Whether a NaN fills its row, where one warp has it, and no other."""
    a = a.clone()
    a[2, 77] = float("nan")
    result = torch.view_as_real(kernels.diagonal(a, b, c, 1j))
    return {"right": bool(torch.isnan(result[2]).all() and torch.isfinite(result[:2]).all())}


def _norm_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error over the largest value: gradients pass through 0."""
    if exact.numel() == 0:
        return 0.0
    error = ((found - exact).abs().max() / exact.abs().max()).item()
    return error if error == error else float("inf")


if __name__ == "__main__":
    main()
