"""What the user's document proposes and no phase does: GroupNorm, a softplus kernel, a memory pool, each timed beside without."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional

from phasewise import CheckContext, Checked, Quantity
from phasewise.kit.kernels import has_kernel
from phasewise_studies.spectral_node import data
from phasewise_studies.spectral_node.metric import FLOOR, Parameters, evaluate, take_metric

# cell 4: "dimensions are multiples of 8"
GROUPS = 8
# turns of both sides, one after the other
TURNS = 9
Call = Callable[[], object]


def evaluate_normed(metric: Parameters, c: Tensor, wavelength: Tensor) -> Tensor:
    """g(c, l) as metric.evaluate has it, with GroupNorm (without weights of its own) before both tanh."""
    points = torch.stack(torch.broadcast_tensors(c, wavelength), dim=-1)
    hidden = points.flatten(0, -2)
    for weight, bias in (("metric/w1", "metric/b1"), ("metric/w2", "metric/b2")):
        hidden = functional.group_norm(functional.linear(hidden, metric[weight], metric[bias]), GROUPS).tanh()
    z = functional.linear(hidden, metric["metric/w3"][None])[..., 0]
    return positive(z, metric["metric/b3"]).reshape(points.shape[:-1])


def positive(z: Tensor, bias: Tensor) -> Tensor:
    """softplus(z + bias) + FLOOR by three operators."""
    return functional.softplus(z + bias) + FLOOR


def measure_proposals(context: CheckContext) -> Checked:
    """Each proposal's time as a multiple of the same without it, on the points of the grid, in eager float32."""
    device = context.device
    metric = take_metric(context.inputs(0), dtype=torch.float32, device=device)
    waves = data.wavelengths(context.shape.wavelengths).to(device, torch.float32)[:, None]
    grid = torch.linspace(-1, 1, context.shape.columns, device=device)[None, :]

    def plain() -> Tensor:
        return evaluate(metric, grid, waves)

    normed = evaluate_normed(metric, grid, waves)
    right = bool(normed.isfinite().all()) and float(normed.min()) >= FLOOR
    ratios = {"GroupNorm": _compare(lambda: evaluate_normed(metric, grid, waves), plain, device)}
    if has_kernel(device):
        from phasewise_studies.spectral_node.kernels.softplus import softplus_fused

        z, bias = torch.randn_like(normed), metric["metric/b3"]
        right = right and torch.allclose(softplus_fused(z, bias), positive(z, bias), rtol=1e-6, atol=1e-6)
        ratios["bias and softplus, of the whole evaluation"] = _compare(lambda: positive(z, bias), plain, device)
        ratios["the same in one kernel"] = _compare(lambda: softplus_fused(z, bias), plain, device)
    if device.type == "cuda":
        pool = torch.cuda.MemPool()

        def pooled() -> Tensor:
            with torch.cuda.use_mem_pool(pool):
                return plain()

        ratios["a memory pool"] = _compare(pooled, plain, device)
    return Checked(
        passed=right,
        message=f"times of an evaluation of g at {grid.numel() * waves.numel()} points: "
        + ", ".join(f"{name} {ratio.value:.3g}" for name, ratio in ratios.items()),
        numbers={f"time, {name}": ratio for name, ratio in ratios.items()},
    )


def _compare(one: Call, other: Call, device: torch.device) -> Quantity:
    """How many times as long `one` takes as `other`: the median of turns side by side, between the least and the largest."""
    for call in (one, other):
        call()
    turns = sorted(_time(one, device) / _time(other, device) for _ in range(TURNS))
    return Quantity(value=median(turns), unit="x", low=turns[0], high=turns[-1])


def _time(call: Call, device: torch.device) -> float:
    """Seconds of `call` with the wait for its end."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
