"""Raw CUDA: what nvcc builds, why it does not, and the decoded token against PyTorch on a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from phasewise.workloads.polychromic import cuda_library, decode_cuda, diversity_cuda, sampling, shared
from phasewise.workloads.polychromic.weights import ModelShape


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
    from phasewise.workloads.polychromic.decoder import Decoder, Launch
    from phasewise.workloads.polychromic.llama import Forward
    from phasewise.workloads.polychromic.weights import draw_weights

    weights = draw_weights(RAW_SHAPES[name]).to("cuda", torch.bfloat16)
    exact = Forward(weights=weights.to("cuda", torch.float64))
    sizes = shared.Sizes(prompts=prompts, replies=replies, prompt_length=length, tokens=tokens)
    generator = torch.Generator().manual_seed(4)
    batch = torch.randint(3, 193, (prompts, length), generator=generator).cuda()
    lengths = torch.randint(1, length + 1, (prompts,), generator=generator).cuda()
    uniforms = torch.rand(sizes.rows, tokens, generator=generator).cuda()
    decoder = Decoder(weights, sizes, sampling.Sampling(), Launch(pdl=pdl, burst=4))
    assert not decoder.fallbacks and decoder._raw is not None
    assert decoder._raw.samples == (torch.cuda.get_device_capability() >= (9, 0))
    found = decoder.generate(batch, lengths, uniforms)
    again = decoder.generate(batch, lengths, uniforms)
    assert torch.equal(found.tokens_RT, again.tokens_RT)
    assert torch.equal(found.log_probabilities_RT, again.log_probabilities_RT)
    # the last token's logits are still there
    p = (decoder.workspace.logits_RV.double() / sampling.Sampling().temperature).softmax(-1)
    last, u = found.tokens_RT[:, -1], uniforms[:, -1].double()
    assert float(sampling.misfit(p, last, u, sampling.Sampling().top_p, 1e-5).max()) < 1e-5
    log_p = p.gather(-1, last[:, None])[:, 0].log()
    assert float((found.log_probabilities_RT[:, -1] - log_p).abs().max()) < 1e-5
    # the same tokens through PyTorch in float64
    wanted = shared.make_buffers(exact, sizes)
    given = iter(found.tokens_RT.unbind(1))
    shared.generate_shared(
        exact, wanted, batch, lengths, uniforms, sampling.Sampling(),
        lambda logits, *_: (next(given), _remember(logits)), ask_host=False,
    )  # fmt: skip
    used = tokens - 1
    assert _error(decoder.buffers.own_k_LRTGE[:, :, :used], wanted.own_k_LRTGE[:, :, :used]) < 2e-2
    assert _error(decoder.buffers.own_v_LRTGE[:, :, :used], wanted.own_v_LRTGE[:, :, :used]) < 2e-2
    assert _error(decoder.workspace.logits_RV, LAST[-1]) < 2e-2


LAST: list[torch.Tensor] = []


def _remember(logits: torch.Tensor) -> torch.Tensor:
    """Keep the logits; log-probabilities that nobody asks for."""
    LAST[:] = [logits]
    return logits[:, 0]


def _error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square of the difference over that of the values: bfloat16 keeps 8 bits."""
    return float((found.double() - exact).square().mean().sqrt() / exact.square().mean().sqrt())
