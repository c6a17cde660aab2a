"""The sampler of a cluster of blocks: its own source run by 4096 threads in turn, and on a GPU."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from functools import lru_cache

import pytest
import torch
from torch import Tensor

from phasewise_studies.polychromic.kernels import decode_cuda
from phasewise_studies.polychromic.model import sampling
from phasewise_studies.polychromic.model.weights import ModelShape
from phasewise_studies.polychromic.tests.emulated_library import build_emulated

KINDS = ("peaked", "usual", "flat", "tied", "equal", "one", "two")
TEMPERATURE = 0.7
# what float32 sums of a row may be off by
SLACK = 1e-5


def make_shape(vocabulary: int) -> ModelShape:
    return ModelShape(layers=2, width=224, heads=2, kv_heads=2, head=64, inner=416, vocabulary=vocabulary)


def draw_logits(kind: str, rows: int, vocabulary: int) -> Tensor:
    """Rows of one kind; the first two have the ends of the distribution as their uniform numbers."""
    z = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    if kind == "tied":
        return z.round()
    if kind in ("one", "two"):
        # all but so many words a row without any mass
        places = z.topk(2).indices
        values = torch.tensor([1.0, 0.9 if kind == "two" else -torch.inf]).expand(rows, 2)
        return torch.full_like(z, -torch.inf).scatter(1, places, values)
    return {"peaked": 12.0, "usual": 3.0, "flat": 0.01, "equal": 0.0}[kind] * z


def draw_uniforms(rows: int) -> Tensor:
    uniforms = torch.rand(rows, generator=torch.Generator().manual_seed(1))
    uniforms[:2] = torch.tensor([0.0, 1.0 - 2**-24])[:rows]
    return uniforms


def hold(logits: Tensor, uniforms: Tensor, top_p: float, tokens: Tensor, log_p: Tensor) -> None:
    """Every token is that of its uniform number; without chance it is the first of the largest logits."""
    exact = (logits.double() / TEMPERATURE).log_softmax(-1)
    assert ((tokens >= 0) & (tokens < logits.shape[1])).all()
    own = exact.gather(-1, tokens[:, None])[:, 0]
    assert float(((log_p - own).abs() / own.abs().clamp_min(1)).max()) < 2e-6
    if top_p == 0:
        assert torch.equal(tokens, logits.argmax(-1))
    else:
        assert float(sampling.misfit(exact.exp(), tokens, uniforms.double(), top_p, SLACK).max()) < SLACK


def sample_by(library: ctypes.CDLL, logits: Tensor, uniforms: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """Tokens and log-probabilities; -1 and nan where none was written."""
    rows = len(logits)
    tokens, log_p, at = torch.full((rows,), -1), torch.full((rows,), torch.nan), torch.zeros(1, dtype=torch.long)
    pointers = [tensor.data_ptr() for tensor in (logits, uniforms, tokens, log_p, at)]
    assert library.polychromic_sample(*pointers, rows, 1, 1 / TEMPERATURE, top_p, None) == 0
    return tokens, log_p


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], ctypes.CDLL]:
    """The emulated library for a vocabulary, built once."""
    return lru_cache(lambda vocabulary: build_emulated(make_shape(vocabulary), tmp_path_factory.mktemp("cluster")))


@pytest.mark.parametrize(
    ("vocabulary", "kind", "top_p"),
    [
        (193, "peaked", 0.9), (193, "equal", 0.5), (193, "one", 0.9), (193, "two", 0.5), (193, "usual", 1.0),
        (9001, "usual", 0.9), (9001, "tied", 0.9), (9001, "tied", 0.0), (9001, "flat", 0.5), (9001, "peaked", 1.0),
        (49_152, "usual", 0.9), (49_152, "peaked", 0.0),
    ],
)  # fmt: skip
def test_a_cluster_picks_the_token_of_a_uniform_number(
    libraries: Callable[[int], ctypes.CDLL], vocabulary: int, kind: str, top_p: float
) -> None:
    rows = 2 if vocabulary > 193 else 3
    logits, uniforms = draw_logits(kind, rows, vocabulary), draw_uniforms(rows)
    hold(logits, uniforms, top_p, *sample_by(libraries(vocabulary), logits, uniforms, top_p))


def test_blocks_agree_on_which_has_the_token_where_one_ends(libraries: Callable[[int], ctypes.CDLL]) -> None:
    # words of a block; rows for each of its ends
    vocabulary, part, repeats = 193, 25, 8
    ends = torch.arange(part - 1, vocabulary - 1, part)
    logits = draw_logits("usual", repeats * len(ends), vocabulary)
    running = (logits.double() / TEMPERATURE).softmax(-1).cumsum(-1)
    # of two blocks whose sums differ by a rounding none would take it, or both
    uniforms = running.gather(-1, ends.repeat(repeats)[:, None])[:, 0].float()
    hold(logits, uniforms, 1.0, *sample_by(libraries(vocabulary), logits, uniforms, 1.0))


@pytest.mark.parametrize(
    ("capability", "vocabulary", "can"),
    [((9, 0), 49_152, True), ((12, 0), 262_144, True), ((9, 0), 262_145, False), ((8, 9), 49_152, False)],
)
def test_clusters_came_with_hopper_and_keep_so_many_words(
    capability: tuple[int, int], vocabulary: int, can: bool
) -> None:
    assert decode_cuda.can_sample(capability, vocabulary) == can


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit)")
@pytest.mark.parametrize("vocabulary", [193, 1003, 49_152, 128_256])
@pytest.mark.parametrize("rows", [1, 12, 48, 63])
def test_on_a_gpu_the_cuda_sampler_picks_the_token_of_a_uniform_number_and_repeats(rows: int, vocabulary: int) -> None:
    if not decode_cuda.can_sample(torch.cuda.get_device_capability(), vocabulary):
        pytest.skip("needs compute capability 9.0")
    shape, uniforms = make_shape(vocabulary), draw_uniforms(rows).cuda()
    for kind in KINDS:
        logits = draw_logits(kind, rows, vocabulary).cuda()
        for top_p in (0.0, 0.5, 0.9, 1.0):
            chosen = sampling.Sampling(TEMPERATURE, top_p)
            tokens, log_p = decode_cuda.sample(logits, uniforms, chosen, shape)
            again = decode_cuda.sample(logits, uniforms, chosen, shape)
            assert torch.equal(tokens, again[0]) and torch.equal(log_p, again[1]), (kind, top_p)
            hold(logits, uniforms, top_p, tokens, log_p)
