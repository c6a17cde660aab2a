"""Launch the kernels of one token, in order."""

from __future__ import annotations

from typing import Any

import torch
import triton

from phasewise_studies.polychromic.kernels import decode_triton
from phasewise_studies.polychromic.kernels.decode_workspace import Launch, Launcher, Workspace
from phasewise_studies.polychromic.kernels.sampler_triton import choose_split, launch_sample
from phasewise_studies.polychromic.model.sampling import Sampling
from phasewise_studies.polychromic.model.shared_cache import Buffers, Sizes
from phasewise_studies.polychromic.model.weights import Weights

# rows that a tensor-core product takes at least
FEWEST_ROWS = 16


def launch_token(
    weights: Weights, buffers: Buffers, space: Workspace, sizes: Sizes, sampling: Sampling, launch: Launch,
    multiprocessors: int | None = None, raw: Launcher | None = None,
) -> None:  # fmt: skip
    """Token `at + 1` of every row from token `at`; `raw` launches what it can of it, if given."""
    shape, rows = weights.shape, sizes.rows
    if multiprocessors is None:
        multiprocessors = torch.cuda.get_device_properties(space.x_RD.device).multi_processor_count
    padded = max(triton.next_power_of_2(rows), FEWEST_ROWS)
    # a float32 product by tensor cores would round to tf32
    cut = {"ROWS": padded, "SPLIT": launch.split, "BLOCK": launch.block, "PRECISION": "ieee"}
    common: dict[str, Any] = {
        "PDL": launch.pdl,
        "num_warps": launch.split,
        **({"launch_pdl": True} if launch.pdl else {}),
    }
    if raw is not None:
        raw.launch()
    else:
        decode_triton.embed_kernel[(1,)](
            space.x_RD, buffers.tokens_RT, weights.embed_VD, space.at, space.counters, rows, sizes.tokens, rows,
            D=shape.width, ROWS=padded, BLOCK=128, COUNTERS=triton.next_power_of_2(rows), **common,
        )  # fmt: skip
        for layer in range(shape.layers):
            _launch_layer(weights, buffers, space, sizes, launch, layer, cut, common)
        decode_triton.logits_kernel[(triton.cdiv(shape.vocabulary, launch.head_columns),)](
            space.logits_RV, space.x_RD, weights.norm_D, weights.head_VD, rows, shape.epsilon, shape.vocabulary,
            D=shape.width, COLUMNS=launch.head_columns, **cut, **common,
        )  # fmt: skip
    if raw is not None and raw.samples:
        return
    launch_sample(
        buffers.tokens_RT, buffers.log_probabilities_RT, space.logits_RV, buffers.uniforms_RT, space.at, space.scratch,
        space.counters, sampling, choose_split(rows, shape.vocabulary, multiprocessors), pdl=launch.pdl,
    )  # fmt: skip


def _launch_layer(
    weights: Weights, buffers: Buffers, space: Workspace, sizes: Sizes, launch: Launch, layer: int,
    cut: dict[str, Any], common: dict[str, Any],
) -> None:  # fmt: skip
    shape, rows, columns = weights.shape, sizes.rows, launch.columns
    heads = {"H": shape.heads, "G": shape.kv_heads, "E": shape.head, "REPLIES": sizes.replies}
    own_k, own_v = buffers.own_k_LRTGE[layer], buffers.own_v_LRTGE[layer]
    # without a norm of heads its gains are not read
    gain_q, gain_k = (
        gains[layer] if gains is not None else space.cosines for gains in (weights.norm_q_LE, weights.norm_k_LE)
    )
    # a tile of a head holds pairs (i, i + E / 2)
    pairs = min(columns, shape.head // 2)
    decode_triton.qkv_kernel[((shape.heads + 2 * shape.kv_heads) * shape.head // (2 * pairs),)](
        space.q_RQ, own_k, own_v, space.x_RD, weights.norm_attention_LD[layer], weights.qkv_LOD[layer], space.cosines,
        space.sines, buffers.lengths_P, space.at, rows, sizes.tokens, shape.epsilon,
        D=shape.width, **heads, PAIRS=pairs, NORMED=shape.normed_heads, **cut, **common,
    )  # fmt: skip
    decode_triton.attention_kernel[(rows * shape.kv_heads,)](
        space.attended_RQ, space.q_RQ, buffers.prompt_k_LPSGE[layer], buffers.prompt_v_LPSGE[layer], own_k, own_v, gain_q, gain_k,
        space.cosines, space.sines, buffers.lengths_P, space.at, sizes.prompt_length, sizes.tokens, shape.head**-0.5, shape.epsilon,
        **heads, QUERIES=max(triton.next_power_of_2(shape.heads // shape.kv_heads), FEWEST_ROWS), KEYS=launch.keys,
        PRECISION=cut["PRECISION"], NORMED=shape.normed_heads, **{**common, "num_warps": launch.attention_warps},
    )  # fmt: skip
    decode_triton.add_kernel[(shape.width // columns,)](
        space.x_RD, space.attended_RQ, weights.out_LDQ[layer], rows, D=shape.width, K=shape.q_size, COLUMNS=columns, **cut,
        **common,
    )  # fmt: skip
    decode_triton.gate_up_kernel[(shape.inner // columns,)](
        space.inner_RF, space.x_RD, weights.norm_inner_LD[layer], weights.gate_up_LFD[layer], rows, shape.epsilon,
        D=shape.width, F=shape.inner, COLUMNS=columns, **cut, **common,
    )  # fmt: skip
    decode_triton.add_kernel[(shape.width // columns,)](
        space.x_RD, space.inner_RF, weights.down_LDF[layer], rows, D=shape.width, K=shape.inner, COLUMNS=columns, **cut,
        **common,
    )  # fmt: skip
