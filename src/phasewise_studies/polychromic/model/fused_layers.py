"""Log-probabilities of given tokens, and the adapters' gradients, in few launches: llama.py's model with adapters.

Several batches of other lengths go through together: everything but attention works on their tokens in one row. A layer is

    forward   norm, 2 products, rotation | attention 1 | copy, 2 products, norm, 2 products, gate, 2 products         14
    backward  2 products, gate, 2 products, norm, 2 products | attention 3 | rotation, 2 products, norm               15

launches with cuDNN's attention, and 6 more for each further batch; the plain layers take 218 for each batch. About 75 more
are there once: 14 that take over the adapters, 22 that add their gradients, the head, the loss.

Estimate for 2 x 512 tokens of SmolLM2-135M on an H200: eight large products of 4 to 8 us are 40 us a layer, eight of the
adapters' rank at 3 us 26, nine passes over 1 to 12 MB 23, attention 28, 29 gaps of 0.4 us 12: 30 layers take 3.9 ms. Logits
are 100 MB, written once, read twice, and overwritten by their gradients: 0.1 ms, and their products 0.25. Gradients of
the adapters read 0.5 GB twice, 0.25 ms. Together 4.6 ms, of which 0.7 are arithmetic that cannot be saved.

A Qwen3's norm of queries and keys goes with the rotation, in the same launch; its backward pass keeps them as they were projected.

Gradients of the adapters are added to `Lora.gradient` at the end of the backward pass, once for all layers. Dropout and
checkpointing are left to the plain forms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from phasewise_studies.polychromic.kernels.gate_triton import gate, gate_backward
from phasewise_studies.polychromic.kernels.loss_triton import token_log_p, token_log_p_backward
from phasewise_studies.polychromic.kernels.norm_triton import add_norm, add_norm_backward
from phasewise_studies.polychromic.kernels.rotary_triton import HeadNorm, turn, turn_back
from phasewise_studies.polychromic.model.joined_weights import Group
from phasewise_studies.polychromic.model.llama import Forward, attend
from phasewise_studies.polychromic.model.rotary import rotation
from phasewise_studies.polychromic.model.weights import Weights


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What the layers of one forward and backward pass share: N tokens in `sizes` batches of (rows, length) each."""

    weights: Weights
    groups: Mapping[str, Group]
    # the inputs of each group with their t, and the gradients of its outputs with their dt, of all layers: (L, N, ...)
    inputs: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor]
    cos: Tensor
    sin: Tensor
    sizes: tuple[tuple[int, int], ...]

    @property
    def counts(self) -> list[int]:
        return [rows * length for rows, length in self.sizes]

    def input(self, name: str, layer: int) -> Tensor:
        """The place of a group's input in one layer."""
        return self.inputs[name][layer, :, : self.groups[name].into]

    def gradient(self, name: str, layer: int) -> Tensor:
        """The place of the gradient of a group's output in one layer."""
        return self.gradients[name][layer, :, : self.groups[name].out]

    def project(self, name: str, layer: int) -> Tensor:
        return self.groups[name].project(layer, self.inputs[name][layer])

    def project_back(self, name: str, layer: int) -> Tensor:
        return self.groups[name].project_back(layer, self.gradients[name][layer])

    def head_norm(self, layer: int) -> HeadNorm | None:
        """The norm of queries and keys in one layer, where the model has one."""
        q_LE, k_LE = self.weights.norm_q_LE, self.weights.norm_k_LE
        return None if q_LE is None or k_LE is None else HeadNorm(q_LE[layer], k_LE[layer], self.weights.shape.epsilon)

    def split_heads(self, qkv: Tensor, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Views q (B, S, H, E), k and v (B, S, G, E) of the rows of one batch in qkv (N, (H + 2 G) E)."""
        shape, size = self.weights.shape, self.sizes[batch]
        parts = qkv.split(self.counts)[batch].split((shape.q_size, shape.kv_size, shape.kv_size), dim=1)
        return tuple(part.unflatten(0, size).unflatten(-1, (-1, shape.head)) for part in parts)  # type: ignore[return-value]


def begin(forward: Forward, tokens: Sequence[Tensor]) -> Pass:
    """Room for one pass, and the adapters as they are now."""
    assert forward.joined is not None and not forward.dropout and not forward.checkpointing, "left to the plain forms"
    weights, groups = forward.weights, forward.joined
    count, device, dtype = sum(one.numel() for one in tokens), tokens[0].device, weights.embed_VD.dtype
    for group in groups.values():
        group.refresh()

    def make_room(width: int) -> Tensor:
        return torch.empty(weights.shape.layers, count, width, device=device, dtype=dtype)

    positions = [torch.arange(one.shape[1], device=device).expand_as(one).flatten() for one in tokens]
    cos, sin = rotation(weights.shape, torch.cat(positions), torch.promote_types(dtype, torch.float32))
    learns = torch.is_grad_enabled()
    return Pass(
        weights=weights,
        groups=groups,
        inputs={name: make_room(group.into + group.ranks) for name, group in groups.items()},
        gradients={name: make_room(group.out + group.ranks) for name, group in groups.items()} if learns else {},
        cos=cos,
        sin=sin,
        sizes=tuple((one.shape[0], one.shape[1]) for one in tokens),
    )


class BeforeAttention(torch.autograd.Function):
    """The residual stream h = x + y (N, D), and rotated queries, keys and values of each batch.

    `anchor` is any adapter: it makes autograd come here. Its gradient is added with all others' in the first layer, whose
    backward pass is the last.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor | None, anchor: Tensor, one: Pass, layer: int) -> tuple[Tensor, ...]:
        weights = one.weights
        gain = weights.norm_attention_LD[layer]
        h, scale = add_norm(one.input("qkv_LOD", layer), x, y, gain, weights.shape.epsilon)
        flat = one.project("qkv_LOD", layer)
        shape = weights.shape
        q, k, v = (
            part.unflatten(-1, (-1, shape.head))[None]
            for part in flat.split((shape.q_size, shape.kv_size, shape.kv_size), dim=1)
        )
        turned = torch.empty_like(flat)
        # as one row: the angles are given for every token
        norm = one.head_norm(layer)
        turn(turned, q, k, v, one.cos, one.sin, norm)
        ctx.save_for_backward(h, scale, gain, None if norm is None else flat)
        ctx.one, ctx.layer = one, layer
        return h, *(part for batch in range(len(one.sizes)) for part in one.split_heads(turned, batch))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor, *heads: Tensor) -> tuple[Tensor | None, ...]:
        one, layer = ctx.one, ctx.layer
        h, scale, gain, flat = ctx.saved_tensors
        norm, counts = one.head_norm(layer), one.counts
        places = one.gradient("qkv_LOD", layer).split(counts)
        angles = zip(one.cos.split(counts), one.sin.split(counts), strict=True)
        for batch, (place, (cos, sin)) in enumerate(zip(places, angles, strict=True)):
            before = None if flat is None else flat.split(counts)[batch]
            turn_back(place, *heads[3 * batch : 3 * batch + 3], cos, sin, norm, before)
        dn = one.project_back("qkv_LOD", layer)
        # the gradient of the layer before, where its last projection finds it
        dx = one.gradient("down_LDF", layer - 1) if layer else torch.empty_like(h)
        add_norm_backward(dx, dn, dh, h, scale, gain)
        if layer == 0:
            for name, group in one.groups.items():
                group.accumulate(one.inputs[name], one.gradients[name])
        return dx, dx if layer else None, None, None, None


class AfterAttention(torch.autograd.Function):
    """From x (N, D) and what the batches attended to (B, S, H E): h = x + out(attended), and down(silu(gate) * up) of its norm."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, one: Pass, layer: int, *attended: Tensor) -> tuple[Tensor, Tensor]:
        weights = one.weights
        gain = weights.norm_inner_LD[layer]
        for place, part in zip(one.input("out_LDQ", layer).split(one.counts), attended, strict=True):
            place.copy_(part.flatten(0, 1))
        y = one.project("out_LDQ", layer)
        h, scale = add_norm(one.input("gate_up_LFD", layer), x, y, gain, weights.shape.epsilon)
        gate_up = one.project("gate_up_LFD", layer)
        gate(one.input("down_LDF", layer), gate_up)
        ctx.save_for_backward(h, scale, gain, gate_up)
        ctx.one, ctx.layer = one, layer
        return h, one.project("down_LDF", layer)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dh: Tensor, dy: Tensor) -> tuple[Tensor | None, ...]:
        one, layer = ctx.one, ctx.layer
        h, scale, gain, gate_up = ctx.saved_tensors
        _put(one.gradient("down_LDF", layer), dy)
        da = one.project_back("down_LDF", layer)
        gate_backward(one.gradient("gate_up_LFD", layer), da, gate_up)
        dn = one.project_back("gate_up_LFD", layer)
        dx = add_norm_backward(one.gradient("out_LDQ", layer), dn, dh, h, scale, gain)
        parts = one.project_back("out_LDQ", layer).split(one.counts)
        return dx, None, None, *(part.unflatten(0, size) for part, size in zip(parts, one.sizes, strict=True))


class TokenLogP(torch.autograd.Function):
    """log p (N,) of `targets` after h = x + y, through the last norm and the head; 0 where a target is negative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, targets: Tensor, one: Pass) -> Tensor:
        weights = one.weights
        normed = torch.empty_like(x)
        h, scale = add_norm(normed, x, y, weights.norm_D, weights.shape.epsilon)
        logits = functional.linear(normed, weights.head_VD)
        log_p, lse = token_log_p(logits, targets)
        ctx.save_for_backward(h, scale, lse, targets)
        # not by save_for_backward, which would refuse that gradients are written over them
        ctx.one, ctx.logits = one, logits
        return log_p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dlog_p: Tensor) -> tuple[Tensor | None, ...]:
        h, scale, lse, targets = ctx.saved_tensors
        one, logits = ctx.one, ctx.logits
        # a second backward pass would find gradients where logits were
        del ctx.logits
        dn = token_log_p_backward(logits, dlog_p, lse, targets) @ one.weights.head_VD
        last = one.gradient("down_LDF", one.weights.shape.layers - 1)
        dx = add_norm_backward(last, dn, None, h, scale, one.weights.norm_D)
        return dx, dx, None, None


def _put(place: Tensor, value: Tensor) -> None:
    """Copy, unless it lies there already, as it does where this module's own functions follow each other."""
    if value.data_ptr() != place.data_ptr() or value.stride() != place.stride():
        place.copy_(value)


def fused_log_probabilities(forward: Forward, tokens: Sequence[Tensor]) -> list[Tensor]:
    """log p(tokens[:, t + 1] | tokens[:, :t + 1]) of each batch (B, S), in float32 at least: (B, S - 1) each."""
    one = begin(forward, tokens)
    assert forward.lora is not None, "its adapters are in `joined`"
    anchor = next(iter(forward.lora.leaves.values()))
    x, y = functional.embedding(torch.cat([part.flatten() for part in tokens]), one.weights.embed_VD), None
    for layer in range(one.weights.shape.layers):
        h, *heads = BeforeAttention.apply(x, y, anchor, one, layer)
        attended = [attend(*heads[at : at + 3], None, sdpa=forward.sdpa) for at in range(0, len(heads), 3)]
        x, y = AfterAttention.apply(h, one, layer, *attended)
    # nothing follows the last token of a row
    targets = torch.cat([functional.pad(part[:, 1:], (0, 1), value=-1).flatten() for part in tokens])
    log_p = TokenLogP.apply(x, y, targets, one)
    return [part.view(size)[:, :-1] for part, size in zip(log_p.split(one.counts), one.sizes, strict=True)]
