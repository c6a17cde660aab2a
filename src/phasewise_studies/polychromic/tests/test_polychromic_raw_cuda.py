"""Raw CUDA: what nvcc builds, why it does not, and the decoded token against PyTorch on a GPU."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from phasewise_studies.polychromic.kernels import cuda_library, decode_cuda, diversity_cuda
from phasewise_studies.polychromic.kernels.decode_workspace import Launch, make_workspace
from phasewise_studies.polychromic.model import sampling, shared_cache
from phasewise_studies.polychromic.model.decoder import Decoder
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.weights import SMOLLM2, ModelShape, Weights, draw_weights
from phasewise_studies.polychromic.tests.emulated_library import build_emulated


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit)")
@pytest.mark.parametrize(
    ("source", "constants", "functions"),
    [
        (diversity_cuda.SOURCE, {}, ["polychromic_diversity"]),
        (
            decode_cuda.SOURCE,
            {"WIDTH": 576, "HEADS": 9, "GROUPS": 3, "INNER": 1536, "VOCABULARY": 49_152},
            ["polychromic_token", "polychromic_sample"],
        ),
        # one query head a key head, sizes that no number of warps divides
        (
            decode_cuda.SOURCE,
            {"WIDTH": 224, "HEADS": 2, "GROUPS": 2, "INNER": 416, "VOCABULARY": 193},
            ["polychromic_token", "polychromic_sample"],
        ),
    ],
)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_a_cuda_library_builds_and_holds_its_functions(
    tmp_path: Path, source: Path, constants: dict[str, int], functions: list[str], architecture: str
) -> None:
    cuda_library.build(source, architecture, tmp_path / "library.so", constants)
    library = cuda_library.open_library(tmp_path / "library.so")
    assert all(getattr(library, function) for function in functions)


def test_without_a_compiler_the_reason_names_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_library.shutil, "which", lambda *_, **__: None)
    with pytest.raises(cuda_library.NotBuilt, match="nvcc is not on the PATH; install"):
        cuda_library.build(diversity_cuda.SOURCE, "sm_90", tmp_path / "library.so")


def test_what_is_no_library_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_text("no library")
    with pytest.raises(cuda_library.NotBuilt, match=r"broken\.so cannot be loaded"):
        cuda_library.open_library(tmp_path / "broken.so")


@pytest.mark.parametrize(
    ("changes", "rows", "shared_bytes", "is_for"),
    [
        ({}, 12, 232_448, True),
        ({}, 64, 101_376, True),
        ({}, 65, 232_448, False),
        ({"head": 128}, 12, 232_448, False),
        # too much for the registers of a thread
        ({"inner": 8192}, 12, 232_448, False),
        ({"width": 1000}, 12, 232_448, False),
        # too much for the shared memory of a block: 64 rows of x, or the scores of so many keys
        ({"width": 1024}, 64, 101_376, False),
        ({"prompt_length": 4000}, 12, 232_448, False),
    ],
)
def test_the_source_is_for_models_whose_parts_fit(
    changes: dict[str, int], rows: int, shared_bytes: int, is_for: bool
) -> None:
    length = {"prompt_length": changes.pop("prompt_length", 128)}
    sizes = shared_cache.Sizes(prompts=rows, replies=1, tokens=100, **length)
    assert decode_cuda.is_written_for(replace(SMOLLM2, **changes), sizes, shared_bytes) is is_for


# odd in everything that may be odd: one key head for three query heads and one tile of rows; one each, two tiles, and more keys
# than a block sees at a time
EMULATED = {
    "grouped": (
        ModelShape(layers=2, width=96, heads=3, kv_heads=1, head=64, inner=160, vocabulary=101, tied=False),
        shared_cache.Sizes(prompts=2, replies=3, prompt_length=19, tokens=4),
    ),
    "long": (
        ModelShape(layers=1, width=64, heads=2, kv_heads=2, head=64, inner=96, vocabulary=67),
        shared_cache.Sizes(prompts=3, replies=6, prompt_length=270, tokens=3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EMULATED)
def test_the_source_run_on_a_cpu_leaves_the_tokens_logits_and_caches_of_the_plain_loop(
    name: str, tmp_path: Path
) -> None:
    shape, sizes = EMULATED[name]
    library = build_emulated(shape, tmp_path)
    weights = draw_weights(shape).to("cpu", torch.bfloat16)
    batch, lengths, uniforms = draw_batch(sizes)
    forward = Forward(weights=weights)
    buffers = shared_cache.make_buffers(forward, sizes)
    shared_cache.begin(forward, buffers, batch, lengths, uniforms, sampling.Sampling(), sampling.sample)
    buffers.tokens_RT[:, 1:] = -1
    space = make_workspace(weights, sizes, torch.device("cpu"), 1)
    # what nobody writes must not be read
    space.logits_RV.fill_(torch.nan)
    token, tensors = decode_cuda.describe_token(
        weights, buffers, space, sizes, sampling.Sampling(), overlap=False, samples=True
    )
    logits = []
    for step in range(sizes.tokens - 1):
        assert library.polychromic_token(ctypes.byref(token), 2, None) == 0
        assert int(tensors["at"]) == step + 1
        hold_sampled(space.logits_RV, uniforms, buffers.tokens_RT, buffers.log_probabilities_RT, step + 1)
        logits.append(space.logits_RV.clone())
    seen = follow_plain(weights, sizes, (batch, lengths, uniforms), buffers)
    for found, exact in zip(logits, seen[1:], strict=True):
        assert _error(found, exact) < 2e-2


# two layers with heads of 64: three query heads a key head, and one; sizes that no number of warps divides
RAW_SHAPES = {
    "grouped": ModelShape(layers=2, width=576, heads=9, kv_heads=3, head=64, inner=1536, vocabulary=1003, tied=False),
    "odd": ModelShape(layers=2, width=224, heads=2, kv_heads=2, head=64, inner=416, vocabulary=193),
}


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc (CUDA toolkit)")
@pytest.mark.parametrize("pdl", [False, True])
@pytest.mark.parametrize(("prompts", "replies", "length", "tokens"), [(2, 3, 20, 9), (1, 1, 1, 3), (7, 9, 300, 20)])
@pytest.mark.parametrize("name", RAW_SHAPES)
def test_on_a_gpu_raw_cuda_leaves_the_logits_and_caches_of_the_plain_loop(
    name: str, prompts: int, replies: int, length: int, tokens: int, pdl: bool
) -> None:
    weights = draw_weights(RAW_SHAPES[name]).to("cuda", torch.bfloat16)
    sizes = shared_cache.Sizes(prompts=prompts, replies=replies, prompt_length=length, tokens=tokens)
    given = tuple(tensor.cuda() for tensor in draw_batch(sizes))
    decoder = Decoder(weights, sizes, sampling.Sampling(), Launch(pdl=pdl, burst=4))
    assert not decoder.fallbacks and decoder._raw is not None
    assert decoder._raw.samples == (torch.cuda.get_device_capability() >= (9, 0))
    found, again = decoder.generate(*given), decoder.generate(*given)
    assert torch.equal(found.tokens_RT, again.tokens_RT)
    assert torch.equal(found.log_probabilities_RT, again.log_probabilities_RT)
    # the last token's logits are still there
    logits = decoder.workspace.logits_RV
    hold_sampled(logits, given[2], found.tokens_RT, found.log_probabilities_RT, -1)
    assert _error(logits, follow_plain(weights, sizes, given, decoder.buffers)[-1]) < 2e-2


def draw_batch(sizes: shared_cache.Sizes) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Prompts (P, S), their lengths (P,), the longest as long as may be, and uniform numbers (R, T)."""
    generator = torch.Generator().manual_seed(4)
    lengths = torch.randint(1, sizes.prompt_length + 1, (sizes.prompts,), generator=generator)
    lengths[0] = sizes.prompt_length
    batch = torch.randint(3, 67, (sizes.prompts, sizes.prompt_length), generator=generator)
    return batch, lengths, torch.rand(sizes.rows, sizes.tokens, generator=generator)


def hold_sampled(
    logits: torch.Tensor, uniforms: torch.Tensor, tokens: torch.Tensor, log_probabilities: torch.Tensor, at: int
) -> None:
    """The tokens of one step are those of their uniform numbers, by the logits they were drawn from."""
    exact = (logits.double() / sampling.Sampling().temperature).log_softmax(-1)
    taken = tokens[:, at]
    assert ((taken >= 0) & (taken < logits.shape[1])).all()
    top_p = sampling.Sampling().top_p
    assert float(sampling.misfit(exact.exp(), taken, uniforms[:, at].double(), top_p, 1e-5).max()) < 1e-5
    assert float((log_probabilities[:, at] - exact.gather(-1, taken[:, None])[:, 0]).abs().max()) < 1e-5


def follow_plain(
    weights: Weights, sizes: shared_cache.Sizes, given: tuple[torch.Tensor, ...], found: shared_cache.Buffers
) -> list[torch.Tensor]:
    """Logits of every step by PyTorch in float64 along the tokens of `found`, whose caches are held against it."""
    exact = Forward(weights=weights.to(weights.embed_VD.device, torch.float64))
    wanted = shared_cache.make_buffers(exact, sizes)
    tokens, seen = iter(found.tokens_RT.unbind(1)), []

    def take(logits: torch.Tensor, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(logits)
        return next(tokens), logits[:, 0]

    shared_cache.generate_shared(exact, wanted, *given, sampling.Sampling(), take)
    used = sizes.tokens - 1
    assert _error(found.own_k_LRTGE[:, :, :used], wanted.own_k_LRTGE[:, :, :used]) < 2e-2
    assert _error(found.own_v_LRTGE[:, :, :used], wanted.own_v_LRTGE[:, :, :used]) < 2e-2
    return seen


def _error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square of the difference over that of the values: bfloat16 keeps 8 bits."""
    return float((found.double() - exact).square().mean().sqrt() / exact.square().mean().sqrt())
