"""Run by test_kernels.py in a process where Triton interprets: prints what each case gave, as JSON."""

from __future__ import annotations

import json

import torch

from phasewise.workloads.bk_core import kernels, reference, scan
from phasewise.workloads.bk_core.kernels import Launch
from workloads.bk_core.operands import draw_operands, relative_error

# length, batch and whether b and c are batched
SIZES = [
    (1, 130, False), (3, 3, True), (3, 130, False), (31, 3, True), (64, 3, False), (64, 1, True), (127, 3, True),
    (500, 1, False), (2048, 1, True),
]  # fmt: skip


def measure(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, z: complex, *, causal: bool = False, launch: Launch | None = None
) -> dict[str, float | bool]:
    """Error against float64, and whether a second call gives the same bits."""
    exact = scan.diagonal_scan(a.double(), b.double(), c.double(), z, causal=causal)
    result = kernels.diagonal(a, b, c, z, causal=causal, launch=launch)
    again = kernels.diagonal(a, b, c, z, causal=causal, launch=launch)
    return {
        "error": relative_error(result, exact),
        "repeats": torch.equal(torch.view_as_real(result), torch.view_as_real(again)),
        "bounded": bool(((result.imag > 0) & (result.abs() <= (1 + 1e-5) / z.imag)).all()),
    }


def main() -> None:
    """Measure all cases."""
    found: dict[str, dict[str, float | bool]] = {}
    for length, batch, batched in SIZES:
        operands = [operand.float() for operand in draw_operands(batch, length, batched=batched)]
        name = f"{batch}x{length}-{'batched' if batched else 'shared'}"
        found[name] = measure(*operands, 1j)
        if length in (3, 64):
            found[f"{name}-causal"] = measure(*operands, 1j, causal=True)
            found[f"{name}-scan"] = measure(*operands, 0.3 + 0.05j)
    wide = [operand.float() for operand in draw_operands(2, 127, documented=False)]
    found["wide"] = measure(*wide, 0.3j)
    a, b, c = (operand.float() for operand in draw_operands(5, 127))
    found["chunk-32"] = measure(a, b, c, 1j, launch=Launch(32, 4, rows=8))
    found["turns"] = measure(a, b, c, 1j, launch=Launch(16, 8, rows=4, turns=2))
    long = [operand.float() for operand in draw_operands(2, 301)]
    found["tiles"] = measure(*long, 1j, launch=Launch(4, 32, tiles=3))
    found["tiles-scan"] = measure(*long, 0.3 + 0.05j, launch=Launch(4, 32, tiles=3))
    found["strided"] = measure(a.T.contiguous().T, b.repeat_interleave(2)[::2], c, 1j)
    found["negative-couplings"] = measure_negative(a, b, -c)
    found |= measure_nan(a, b, c)
    empty = kernels.diagonal(a[:0], b, c, 1j)
    found["empty"] = {"right": empty.shape == (0, 127) and empty.dtype == torch.complex64}
    found["float64"] = {
        "right": torch.equal(
            kernels.diagonal(*wide_to_double(wide), 1j), reference.diagonal_ratio(*wide_to_double(wide), 1j)
        )
    }
    print(json.dumps(found))


def wide_to_double(operands: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same operands in float64, for which there is no kernel."""
    return [operand.double() for operand in operands]


def measure_negative(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> dict[str, float | bool]:
    """No theorem holds for couplings below 0: the kernel is held to what the plain recursion loses."""
    exact = reference.diagonal_ratio(a.double(), b.double(), c.double(), 1j)
    plain = relative_error(reference.diagonal_ratio(a, b, c, 1j), exact)
    return {"right": relative_error(kernels.diagonal(a, b, c, 1j), exact) < max(2e-6, 4 * plain), "plain": plain}


def measure_nan(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> dict[str, dict[str, float | bool]]:
    """Whether a NaN fills its row and no other."""
    a = a.clone()
    a[2, 77] = float("nan")
    others = torch.tensor([0, 1, 3, 4])
    found = {}
    for name, z in (("nan", 1j), ("nan-scan", 0.05j)):
        result = torch.view_as_real(kernels.diagonal(a, b, c, z))
        right = torch.isnan(result[2]).all() and torch.isfinite(result[others]).all()
        found[name] = {"right": bool(right)}
    return found


if __name__ == "__main__":
    main()
