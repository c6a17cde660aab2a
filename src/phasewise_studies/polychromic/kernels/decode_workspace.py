"""What every kernel of a decoded token shares: how it is cut, and the memory that one leaves to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise_studies.polychromic.model.rotary import rotation
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.model.weights import Weights

# that a tensor-core product takes
FEWEST_KEYS = 16


@dataclass(frozen=True)
class Launch:
    """How the kernels are cut; the same for every layer."""

    # output features of a program
    columns: int = 16
    # of the logits
    head_columns: int = 64
    # parts of the inner dimension, one a warp, and features that each takes at a time
    split: int = 8
    block: int = 64
    # keys that a program of the attention sees at a time: 99 ms for 12 replies of 100 tokens on an H200, 119 with 64
    keys: int = 128
    attention_warps: int = 4
    # kernels overlap with the ones before them (Hopper and later)
    pdl: bool = True
    # raw CUDA where it suits; the fields above are Triton's
    raw: bool = True
    # tokens in one graph
    burst: int = 8


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Device memory of one token: R rows, D width, F inner."""

    x_RD: Tensor
    q_RQ: Tensor
    attended_RQ: Tensor
    inner_RF: Tensor
    logits_RV: Tensor
    # angles of the rotary embedding at every position
    cosines: Tensor
    sines: Tensor
    # index of the last token that was made
    at: Tensor
    scratch: Tensor
    # one a row, for the sampler
    counters: Tensor


@dataclass(frozen=True)
class Launcher:
    """Raw CUDA, ready for a token: `launch()` starts embedding, layers and logits on the current stream, and the sampler if it `samples`."""

    launch: Callable[[], None]
    samples: bool


def adapt(launch: Launch, weights: Weights, device: torch.device) -> Launch:
    """`launch` for this GPU and precision: overlapping kernels came with compute capability 9, float32 tiles are twice as large."""
    overlaps = torch.cuda.get_device_capability(device) >= (9, 0)
    if weights.embed_VD.dtype is torch.float32:
        launch = replace(launch, block=min(launch.block, 16), keys=min(launch.keys, 32))
    # a block of keys takes no more shared memory than one of heads of 64 features
    keys = min(launch.keys, max(64 * launch.keys // weights.shape.head, FEWEST_KEYS))
    return replace(launch, keys=keys, pdl=launch.pdl and overlaps)


def make_workspace(
    weights: Weights, sizes: Sizes, device: torch.device, multiprocessors: int | None = None
) -> Workspace:
    """Zeroed memory, and the angles of every position that a reply can reach."""
    from phasewise_studies.polychromic.kernels.sampler_triton import SLOTS, choose_split

    shape, rows, dtype = weights.shape, sizes.rows, weights.embed_VD.dtype
    if multiprocessors is None:
        multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    splits, _, _ = choose_split(rows, shape.vocabulary, multiprocessors)
    positions = torch.arange(sizes.prompt_length + sizes.tokens, device=device)
    cosines, sines = rotation(shape, positions, torch.float32)
    return Workspace(
        x_RD=torch.zeros(rows, shape.width, device=device),
        q_RQ=torch.zeros(rows, shape.q_size, dtype=dtype, device=device),
        attended_RQ=torch.zeros(rows, shape.q_size, dtype=dtype, device=device),
        inner_RF=torch.zeros(rows, shape.inner, dtype=dtype, device=device),
        logits_RV=torch.zeros(rows, shape.vocabulary, device=device),
        cosines=cosines.contiguous(),
        sines=sines.contiguous(),
        at=torch.zeros(1, dtype=torch.long, device=device),
        scratch=torch.zeros(rows * splits * SLOTS, device=device),
        counters=torch.zeros(rows, dtype=torch.int32, device=device),
    )
