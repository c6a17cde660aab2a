"""Run by test_polychromic_kernels.py in a process where Triton interprets: prints what each case that is named gave."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from phasewise_studies.polychromic.kernels.decode_launch import launch_token
from phasewise_studies.polychromic.kernels.decode_workspace import Launch, make_workspace
from phasewise_studies.polychromic.kernels.diversity_triton import launch_diversity
from phasewise_studies.polychromic.kernels.sampler_triton import sample_with_kernel
from phasewise_studies.polychromic.model import sampling, shared_cache
from phasewise_studies.polychromic.model.diversity import diversity_broadcast, diversity_closed
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.weights import ModelShape, draw_weights
from phasewise_studies.testing import print_cases

CPU = torch.device("cpu")
# odd in everything that may be odd; the inner size ends in the middle of a block
SHAPE = ModelShape(layers=2, width=48, heads=4, kv_heads=2, head=16, inner=48, vocabulary=101, tied=False)
# its heads together are wider than the model, and its head is tied
QWEN3 = replace(SHAPE, heads=6, tied=True, normed_heads=True, epsilon=1e-6)
SIZES = shared_cache.Sizes(prompts=2, replies=2, prompt_length=19, tokens=3)


def draw(*size: int, seed: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def decode(chosen: sampling.Sampling, shape: ModelShape = SHAPE) -> dict[str, float | bool]:
    """Two tokens by kernels after one by PyTorch, against three by PyTorch."""
    weights = draw_weights(shape)
    forward = Forward(weights=weights)
    generator = torch.Generator().manual_seed(3)
    prompts = torch.randint(3, shape.vocabulary, (2, 19), generator=generator)
    lengths, uniforms = torch.tensor([19, 6]), torch.rand(4, 3, generator=generator)
    wanted = shared_cache.make_buffers(forward, SIZES)
    shared_cache.generate_shared(forward, wanted, prompts, lengths, uniforms, chosen, sampling.sample)
    found = shared_cache.make_buffers(forward, SIZES)
    shared_cache.begin(forward, found, prompts, lengths, uniforms, chosen, sampling.sample)
    space = make_workspace(weights, SIZES, CPU, 1)
    launch = Launch(columns=16, head_columns=32, split=2, block=16, keys=16, pdl=False)
    for _ in range(SIZES.tokens - 1):
        launch_token(weights, found, space, SIZES, chosen, launch, 1)
    used = SIZES.tokens - 1
    return {
        "same": torch.equal(found.tokens_RT, wanted.tokens_RT),
        "log_probability": float((found.log_probabilities_RT - wanted.log_probabilities_RT).abs().max()),
        "cache": float((found.own_k_LRTGE[:, :, :used] - wanted.own_k_LRTGE[:, :, :used]).abs().max()),
    }


def sample(vocabulary: int, spread: float, top_p: float, *, tied: bool = False) -> dict[str, float | bool]:
    """The kernel against a sort in float64; tied logits are whole numbers, many of them equal."""
    logits = spread * draw(5, vocabulary, seed=vocabulary)
    logits = logits.round() if tied else logits
    uniforms = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    # the ends of the distribution
    uniforms[0], uniforms[1] = 0.0, 1.0 - 2**-24
    chosen = sampling.Sampling(0.7, top_p)
    tokens, log_p = sample_with_kernel(logits, uniforms, chosen)
    wanted, exact = sampling.sample(logits.double(), uniforms, chosen)
    return {"same": torch.equal(tokens, wanted), "log_probability": float((log_p - exact).abs().max())}


def diversity(groups: int, n: int, width: int) -> dict[str, float]:
    """The kernel against all pairs in float64."""
    e = functional.normalize(draw(groups, n, width, seed=n).double(), dim=-1)
    found, exact = launch_diversity(e.float()), (diversity_broadcast if n > 1 else diversity_closed)(e)
    return {"error": max(float((a - b).abs().max()) for a, b in zip(found, exact, strict=True))}


CASES = {
    "decode sampled": partial(decode, sampling.Sampling()),
    "decode greedy": partial(decode, sampling.GREEDY),
    "decode qwen3 sampled": partial(decode, sampling.Sampling(), QWEN3),
    "decode qwen3 greedy": partial(decode, sampling.GREEDY, replace(QWEN3, tied=False)),
    "sample peaked": partial(sample, 193, 8.0, 0.9),
    "sample flat": partial(sample, 300, 0.01, 0.9),
    "sample greedy": partial(sample, 77, 3.0, 0.0),
    "sample greedy tied": partial(sample, 77, 1.0, 0.0, tied=True),
    "sample all": partial(sample, 64, 3.0, 1.0),
    "diversity documented": partial(diversity, 1, 10, 384),
    "diversity pair": partial(diversity, 2, 2, 24),
    "diversity alone": partial(diversity, 3, 1, 7),
    "diversity odd": partial(diversity, 3, 5, 100),
}


if __name__ == "__main__":
    print_cases(CASES)
