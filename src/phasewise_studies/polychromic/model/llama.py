"""The language model in plain PyTorch: any dtype, with or without adapters, attention written out or by SDPA.

    h   = x + Attention(RMSNorm(x)),    x' = h + W_down (silu(W_gate n) * W_up n)  with n = RMSNorm(h)
    RMSNorm(x) = g x / sqrt(mean(x^2) + eps)

A Qwen3 (arXiv 2505.09388) also takes the RMSNorm of each head's query and key before they are turned.

Rows are padded on the right, so a causal mask is all the masking that a forward pass needs. In float64 this is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from phasewise.kit.regions import region
from phasewise_studies.polychromic.model.joined_weights import Group
from phasewise_studies.polychromic.model.lora import Lora
from phasewise_studies.polychromic.model.rotary import rotate, rotation
from phasewise_studies.polychromic.model.weights import Weights


@dataclass(frozen=True, kw_only=True)
class Forward:
    """How a forward pass is done: the model, its adapters, and what phases may change."""

    weights: Weights
    lora: Lora | None = None
    sdpa: bool = False
    # keep the layers' inputs only, and compute the rest again in the backward pass
    checkpointing: bool = False
    dropout: float = 0.0
    # the projections joined with their adapters (joined_weights.py): log-probabilities then take the fused path (fused_layers.py)
    joined: Mapping[str, Group] | None = None


def rms_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """In float32 at least, as Hugging Face does."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return gain * scaled.to(x.dtype)


def project(x: Tensor, weight: Tensor, forward: Forward, layer: int, projection: str) -> Tensor:
    """x W^T, with the adapter's share where there is one."""
    y = functional.linear(x, weight)
    if forward.lora is None:
        return y
    a, b = forward.lora.pair(layer, projection)
    dropped = functional.dropout(x, forward.dropout) if forward.dropout else x
    return y + forward.lora.scale * functional.linear(functional.linear(dropped, a.to(x.dtype)), b.to(x.dtype))


def project_qkv(x: Tensor, forward: Forward, layer: int, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries (..., heads, head), rotated keys and values (..., kv_heads, head) of normed `x` (..., D)."""
    shape, weights = forward.weights.shape, forward.weights
    w_q, w_k, w_v = weights.qkv_LOD[layer].split((shape.q_size, shape.kv_size, shape.kv_size))
    q = project(x, w_q, forward, layer, "q_proj").unflatten(-1, (shape.heads, shape.head))
    k = project(x, w_k, forward, layer, "k_proj").unflatten(-1, (shape.kv_heads, shape.head))
    v = project(x, w_v, forward, layer, "v_proj").unflatten(-1, (shape.kv_heads, shape.head))
    if weights.norm_q_LE is not None and weights.norm_k_LE is not None:
        q = rms_norm(q, weights.norm_q_LE[layer], shape.epsilon)
        k = rms_norm(k, weights.norm_k_LE[layer], shape.epsilon)
    return rotate(q, cos, sin), rotate(k, cos, sin), v


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, sdpa: bool) -> Tensor:
    """q (B, S, H, E), k and v (B, T, G, E) -> (B, S, H E); `mask` (B or 1, 1, S, T) is True where a query sees a key.

    Without a mask it is causal, and S = T.
    """
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    with region("attention"):
        if sdpa:
            out = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=groups > 1
            )
        else:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
            if mask is None:
                mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
            scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
            wide = scores.to(torch.promote_types(q.dtype, torch.float32)).masked_fill(~mask, -torch.inf)
            out = wide.softmax(-1).to(q.dtype) @ v
    return out.transpose(1, 2).flatten(-2)


Attention = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, queries, keys, values of the new tokens) -> attended (B, S, H E); where a cache lives, it lives in here."""


def run_layers(x: Tensor, forward: Forward, cos: Tensor, sin: Tensor, attention: Attention) -> Tensor:
    """Hidden states (..., D) of embedded tokens through all layers and the last norm."""
    shape, weights = forward.weights.shape, forward.weights

    def layer_step(x: Tensor, layer: int) -> Tensor:
        normed = rms_norm(x, weights.norm_attention_LD[layer], shape.epsilon)
        attended = attention(layer, *project_qkv(normed, forward, layer, cos, sin))
        x = x + project(attended, weights.out_LDQ[layer], forward, layer, "o_proj")
        normed = rms_norm(x, weights.norm_inner_LD[layer], shape.epsilon)
        w_gate, w_up = weights.gate_up_LFD[layer].split(shape.inner)
        gate = project(normed, w_gate, forward, layer, "gate_proj")
        inner = functional.silu(gate) * project(normed, w_up, forward, layer, "up_proj")
        return x + project(inner, weights.down_LDF[layer], forward, layer, "down_proj")

    for layer in range(shape.layers):
        if forward.checkpointing and torch.is_grad_enabled():
            x = checkpoint(layer_step, x, layer, use_reentrant=False, preserve_rng_state=forward.dropout > 0)
        else:
            x = layer_step(x, layer)
    return rms_norm(x, weights.norm_D, shape.epsilon)


def hidden_states(forward: Forward, tokens: Tensor) -> Tensor:
    """(B, S) token ids, padded on the right -> (B, S, D)."""
    x = functional.embedding(tokens, forward.weights.embed_VD)
    cos, sin = rotation(forward.weights.shape, torch.arange(tokens.shape[1], device=tokens.device), x.dtype)
    return run_layers(x, forward, cos, sin, lambda _, q, k, v: attend(q, k, v, None, sdpa=forward.sdpa))
