"""One step's retrieval in two Triton kernels: cost, softmax and mix of a block of rows, then the blocks put together."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.lior.retrieval import measure_cost, mix_in, weigh
from phasewise_studies.lior.window import BETA, EPS

# rows and numbers of a state that one program handles: 16 x 8 programs for a bank of 2048 x 512, about one a multiprocessor
ROWS, WIDTH = 128, 64


def retrieve_rows(
    query: Tensor,
    coords: Tensor,
    states: Tensor,
    valid: Tensor,
    metric: Tensor,
    curvature: Tensor,
    *,
    mix: str = "float32",
    count: Tensor | None = None,
) -> Tensor:
    """y (B, d): what rotated queries (B, n) retrieve from rotated rows (K, n) with states (K, d).

    `mix` is float32, float16 or bfloat16: the format in which weights and states are multiplied. `count`, an int32 scalar
    on the device, bounds the rows that can be valid; blocks behind it are left out without changing a shape.
    """
    if not has_kernel(query.device, query.dtype):
        cost = measure_cost(query, coords, valid, metric, curvature)
        return mix_in(mix, weigh(cost), states)
    import triton

    from phasewise_studies.lior.kernels.retrieval_triton import retrieve_combine_kernel, retrieve_split_kernel

    batch, bank, width = len(query), len(coords), states.shape[1]
    splits, tokens = triton.cdiv(bank, ROWS), max(16, triton.next_power_of_2(batch))
    partial = query.new_empty(splits, batch, width)
    # largest score and sum of exponentials of each token in each block
    peaks, sums = query.new_empty(2, splits, batch)
    count = torch.full((), bank, dtype=torch.int32, device=query.device) if count is None else count
    half = {"float32": 0, "float16": 1, "bfloat16": 2}[mix]
    retrieve_split_kernel[(splits, triton.cdiv(width, WIDTH))](
        partial, peaks, sums, query, coords, states, valid, metric, curvature, count, batch, bank, width, BETA, EPS,
        N=coords.shape[1], TOKENS=tokens, ROWS=ROWS, WIDTH=WIDTH, HALF=half, PRECISION=_choose_precision(query.device),
        num_warps=8,
    )  # fmt: skip
    y = query.new_empty(batch, width)
    retrieve_combine_kernel[(batch, triton.cdiv(width, 128))](
        y, partial, peaks, sums, count, splits, batch, width, ROWS=ROWS, SPLITS=triton.next_power_of_2(splits), WIDTH=128,
        num_warps=4,
    )  # fmt: skip
    return y


def _choose_precision(device: torch.device) -> str:
    """Three tf32 products hold float32's digits; older GPUs and the interpreter multiply float32 as it is."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0):
        return "tf32x3"
    return "ieee"
