"""Inputs, the build of every variant, and the declared work."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from phasewise import Program, Shape, Work
from phasewise.kit.kernels import runs_kernels
from phasewise_studies.layer_norm.reference import EPSILON, reference
from phasewise_studies.layer_norm.switches import Switches

__all__ = ["build", "make_inputs", "reference", "work"]

# in standard deviations: activations lie off zero too, and only there a variance that cancels shows
MEAN = 100.0


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, Tensor]:
    """x and dy (rows, width), w and b (width), float64; dy as of a loss that makes dw of order 1."""
    generator = torch.Generator().manual_seed(seed)
    x, dy = torch.randn(2, shape.rows, shape.width, dtype=torch.float64, generator=generator)
    w, b = torch.randn(2, shape.width, dtype=torch.float64, generator=generator)
    return {"x": MEAN + x, "w": 1 + 0.1 * w, "b": 0.1 * b, "dy": dy / shape.rows**0.5}


def normalise_eager(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """The baseline, written out: each operator reads a matrix and writes one."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / (variance + EPSILON).sqrt() * w + b


def normalise_one_pass(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """Both sums in one sweep; where the mean is large, what the difference leaves are their rounding errors."""
    mean, mean_of_squares = x.mean(-1, keepdim=True), (x * x).mean(-1, keepdim=True)
    return (x - mean) / (mean_of_squares - mean * mean + EPSILON).sqrt() * w + b


def choose_norm(switches: Switches, device: torch.device) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The function of a variant; the baseline's where a kernel does not run."""
    if switches.norm == "one-pass":
        return normalise_one_pass
    if switches.norm == "native":
        return lambda x, w, b: functional.layer_norm(x, w.shape, w, b, EPSILON)
    if switches.norm == "compile":
        return torch.compile(normalise_eager, fullgraph=True)
    if switches.norm == "triton" and runs_kernels(device):
        from phasewise_studies.layer_norm.kernels.rows import LayerNorm

        return LayerNorm.apply
    return normalise_eager


def build(switches: Switches, inputs: dict[str, Tensor], case: str, shape: Shape, device: torch.device) -> Program:
    """One variant of one case."""
    norm = choose_norm(switches, device)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        if case == "forward":
            return {"y": norm(batch["x"], batch["w"], batch["b"])}
        operands = [batch[name].detach().requires_grad_() for name in ("x", "w", "b")]
        with torch.enable_grad():
            y = norm(*operands)
        dx, dw, db = torch.autograd.grad(y, operands, batch["dy"])
        return {"y": y.detach(), "dx": dx, "dw": dw, "db": db}

    fell_back = switches.norm == "triton" and not runs_kernels(device)
    return Program(step=step, fallbacks=("triton: no NVIDIA GPU, the baseline ran instead",) if fell_back else ())


def work(case: str, shape: Shape) -> Work:
    """Forward x is read and y written; to train also dy and x are read and dx written: between the two stands the loss."""
    matrices, flops = (2, 8) if case == "forward" else (5, 22)
    size = shape.rows * shape.width
    traffic = 4 * matrices * (size + shape.width)
    return Work(items=shape.rows, flops=flops * size, bytes=traffic, working_set_bytes=traffic, item="rows")
