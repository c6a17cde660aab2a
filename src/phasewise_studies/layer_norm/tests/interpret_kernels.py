"""Run by test_layer_norm_kernels.py in a process where Triton interprets: prints what each case gave, as JSON."""

from __future__ import annotations

import json

import torch
from torch import Tensor

from phasewise import Shape
from phasewise_studies.layer_norm import program
from phasewise_studies.layer_norm.kernels import rows

# one row, one column, widths beside powers of two, and more rows than there are programs of the backward pass
SHAPES = [(1, 1), (1, 37), (5, 1), (3, 3), (7, 31), (4, 64), (3, 129), (2, 1000), (2 * rows.PROGRAMS + 3, 5)]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def draw(rows: int, width: int, dtype: torch.dtype, mean: float = 0.0) -> list[Tensor]:
    """x, w, b and dy."""
    batch = program.make_inputs("train", Shape(rows=rows, width=width), rows + width)
    batch["x"] += mean - program.MEAN
    return [batch[name].to(dtype) for name in ("x", "w", "b", "dy")]


def run(x: Tensor, w: Tensor, b: Tensor, dy: Tensor) -> dict[str, Tensor]:
    """By the kernels."""
    operands = [part.detach().requires_grad_() for part in (x, w, b)]
    y = rows.LayerNorm.apply(*operands)
    return dict(zip(("y", "dx", "dw", "db"), (y.detach(), *torch.autograd.grad(y, operands, dy)), strict=True))


def measure(x: Tensor, w: Tensor, b: Tensor, dy: Tensor) -> dict[str, float]:
    """The largest error of each result over its largest value, against float64 of the same rounded operands."""
    batch = {name: part.double() for name, part in zip(("x", "w", "b", "dy"), (x, w, b, dy), strict=True)}
    exact = program.reference(batch, "train", Shape()).step(batch)
    found = run(x, w, b, dy)
    assert all(found[name].dtype == x.dtype and found[name].shape == whole.shape for name, whole in exact.items())
    # 0 against 0: the gradient of a row of one number
    errors = {name: (found[name].double() - whole).abs().max() / whole.abs().max().clamp_min(1e-3)
              for name, whole in exact.items()}  # fmt: skip
    return {name: float(error.nan_to_num(nan=float("inf"))) for name, error in errors.items()}


def main() -> None:
    """Measure all cases."""
    found: dict[str, dict[str, float] | bool] = {}
    for name, dtype in DTYPES.items():
        for shape in SHAPES:
            found[f"{shape[0]}x{shape[1]}-{name}"] = measure(*draw(*shape, dtype))
        x, w, b, dy = draw(6, 45, dtype)
        found[f"transposed-{name}"] = measure(x.T.contiguous().T, w, b, dy.T.contiguous().T)
        found[f"every-other-row-{name}"] = measure(x[::2], w, b, dy[::2])
        found[f"cut-columns-{name}"] = measure(x[:, 3:40], w[3:40], b[3:40], dy[:, 3:40])
        found[f"every-other-gain-{name}"] = measure(x[:, :22], w[1::2], b[1::2], dy[:, :1].expand(6, 22))
    found["large-mean-float32"] = measure(*draw(5, 300, torch.float32, mean=program.MEAN))
    x, w, b, dy = draw(0, 7, torch.float32)
    empty = run(x, w, b, torch.empty(0, 7))
    found["empty"] = empty["dx"].shape == (0, 7) and not empty["dw"].any() and not empty["db"].any()
    one, two = (run(*draw(2 * rows.PROGRAMS + 3, 5, torch.float32)) for _ in range(2))
    found["repeats"] = all(torch.equal(one[name], two[name]) for name in one)
    x, w, b, dy = draw(3, 20, torch.float32)
    x[1, 13] = float("nan")
    found["nan"] = torch.isnan(run(x, w, b, dy)["y"]).all(1).tolist() == [False, True, False]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
