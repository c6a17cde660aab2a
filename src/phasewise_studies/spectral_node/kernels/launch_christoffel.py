"""Launch of the kernel of Gamma, or the plain tangent where there is none."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise.kit.kernels import has_kernel, is_interpreted
from phasewise_studies.spectral_node.metric import FLOOR, Parameters, christoffel_tangent

# points, depth of a part of the first layer, width of a part of the second, warps
Tile = tuple[int, int, int, int]
TILE: Tile = (64, 32, 128, 4)


def christoffel(
    metric: Parameters, points: Tensor, wavelengths: Tensor, *, tile: Tile = TILE, precision: str = "tf32x3"
) -> Tensor:
    """Gamma (W, C) at the concentrations `points` (C,) for every wavelength, by the exact tangent."""
    w2 = metric["metric/w2"]
    second, first = w2.shape
    wide = min(tile[2], second)
    if not _has_tile_kernel(points, first, second):
        return christoffel_tangent(metric, points[None, :], wavelengths[:, None])
    import triton

    from phasewise_studies.spectral_node.kernels.christoffel import christoffel_forward_kernel

    gamma = torch.empty((len(wavelengths), len(points)), dtype=torch.float32, device=points.device)
    christoffel_forward_kernel[(triton.cdiv(len(points), tile[0]), len(wavelengths))](
        gamma, points, wavelengths, metric["metric/w1"].T.contiguous(), metric["metric/b1"], w2.T.contiguous(),
        metric["metric/b2"], metric["metric/w3"], metric["metric/b3"], len(points), FLOOR, FIRST=first, SECOND=second,
        POINTS=tile[0], DEEP=min(tile[1], first), WIDE=wide, PRECISION=precision, PTX=not is_interpreted(),
        num_warps=tile[3], num_stages=1,
    )  # fmt: skip
    return gamma


def _has_tile_kernel(points: Tensor, first: int, second: int) -> bool:
    """Whether the kernel answers: there is one, and the layers' widths are those of tiles."""
    powers = all(size & (size - 1) == 0 and size >= 16 for size in (first, second))
    return has_kernel(points.device, points.dtype) and powers
