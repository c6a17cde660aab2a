"""Teacher forcing: what a decode loop says of its own tokens' log-probabilities, against float64 given the same tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.replies import is_live, reply_logits
from phasewise_studies.polychromic.model.sampling import Sampling
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.model.weights import ModelShape, draw_weights
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.generation import make_generator

# small, with heads that raw CUDA is written for
SHAPE = ModelShape(layers=2, width=192, heads=3, kv_heads=1, head=64, inner=320, vocabulary=193)
# the rows that the kernels are cut for, and so many tokens that a root mean square is known to a few per cent
SIZES = Sizes(prompts=4, replies=3, prompt_length=12, tokens=96)


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Log-probability less that in float64, in nats, of each live token (n,)."""

    own: Tensor
    # of one pass over prompt and reply in the same dtype, attention written out, no cache
    plain: Tensor


@torch.no_grad()
def log_probability_errors(switches: Switches, device: torch.device) -> Errors:
    """Replies of this variant's loop on a small model, and its errors on them."""
    weights = draw_weights(SHAPE).to(device, torch.bfloat16 if switches.half else torch.float32)
    sampling = Sampling()
    generator = torch.Generator().manual_seed(13)
    prompts = torch.randint(3, SHAPE.vocabulary, (SIZES.prompts, SIZES.prompt_length), generator=generator).to(device)
    lengths = torch.randint(2, SIZES.prompt_length + 1, (SIZES.prompts,), generator=generator).to(device)
    uniforms = torch.rand(SIZES.rows, SIZES.tokens, generator=generator).to(device)
    drawn = make_generator(switches, weights, None, SIZES, sampling).generate(prompts, lengths, uniforms)

    def forced(dtype: torch.dtype) -> Tensor:
        # the same rounded weights in either dtype
        forward = Forward(weights=weights.to(device, dtype))
        logits = reply_logits(forward, prompts, lengths, drawn.tokens_RT)
        wide = logits.to(torch.promote_types(dtype, torch.float32)) / sampling.temperature
        return wide.log_softmax(-1).gather(-1, drawn.tokens_RT[..., None])[..., 0].double()

    exact, live = forced(torch.float64), is_live(drawn.tokens_RT)
    return Errors(
        own=(drawn.log_probabilities_RT.double() - exact)[live],
        plain=(forced(weights.embed_VD.dtype) - exact)[live],
    )
