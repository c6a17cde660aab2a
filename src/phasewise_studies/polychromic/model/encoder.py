"""The sentence encoder in plain PyTorch: a BERT of MiniLM's shape, mean over tokens, unit length.

sentence-transformers/all-MiniLM-L6-v2: 6 layers, 384 features, 12 heads, post-norm, GELU with erf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from torch.nn import functional

# [CLS], [SEP] of bert-base-uncased's vocabulary
CLS, SEP = 101, 102


@dataclass(frozen=True, kw_only=True)
class EncoderShape:
    """Sizes of a BERT."""

    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    epsilon: float = 1e-12


MINILM = EncoderShape(layers=6, width=384, heads=12, inner=1536, vocabulary=30_522, positions=512)
TINY_ENCODER = EncoderShape(layers=1, width=32, heads=4, inner=64, vocabulary=211, positions=64)
ENCODERS = {"minilm": MINILM, "tiny": TINY_ENCODER}


@dataclass(frozen=True, kw_only=True)
class EncoderWeights:
    """L layers, D width, F inner; rows are outputs. Norms are (gain, bias) in the second dimension."""

    shape: EncoderShape
    words_VD: Tensor
    # positions, the token type 0 added
    positions_SD: Tensor
    norm_embed_2D: Tensor
    qkv_LOD: Tensor
    qkv_bias_LO: Tensor
    out_LDD: Tensor
    out_bias_LD: Tensor
    norm_attention_L2D: Tensor
    up_LFD: Tensor
    up_bias_LF: Tensor
    down_LDF: Tensor
    down_bias_LD: Tensor
    norm_inner_L2D: Tensor

    def to(self, device: torch.device | str, dtype: torch.dtype) -> EncoderWeights:
        """A copy elsewhere or in another dtype."""
        moved = {f.name: getattr(self, f.name).to(device, dtype) for f in fields(self) if f.name != "shape"}
        return replace(self, **moved)


def draw_encoder(shape: EncoderShape, seed: int = 2) -> EncoderWeights:
    """Random weights that float16 and bfloat16 hold exactly."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int, deviation: float) -> Tensor:
        return (torch.randn(*size, generator=generator) * deviation).to(torch.bfloat16).float()

    layers, width = shape.layers, shape.width
    norm = torch.stack((torch.ones(width), torch.zeros(width)))
    return EncoderWeights(
        shape=shape,
        words_VD=draw(shape.vocabulary, width, deviation=0.5),
        positions_SD=draw(shape.positions, width, deviation=0.1),
        norm_embed_2D=norm,
        qkv_LOD=draw(layers, 3 * width, width, deviation=width**-0.5),
        qkv_bias_LO=draw(layers, 3 * width, deviation=0.02),
        out_LDD=draw(layers, width, width, deviation=width**-0.5),
        out_bias_LD=draw(layers, width, deviation=0.02),
        norm_attention_L2D=norm.expand(layers, 2, width).clone(),
        up_LFD=draw(layers, shape.inner, width, deviation=width**-0.5),
        up_bias_LF=draw(layers, shape.inner, deviation=0.02),
        down_LDF=draw(layers, width, shape.inner, deviation=shape.inner**-0.5),
        down_bias_LD=draw(layers, width, deviation=0.02),
        norm_inner_L2D=norm.expand(layers, 2, width).clone(),
    )


def pack_encoder(shape: EncoderShape, state: Mapping[str, Tensor]) -> EncoderWeights:
    """From the state dict of a Hugging Face BertModel."""

    def stack(*names: str) -> Tensor:
        return torch.stack([torch.cat([state[f"encoder.layer.{i}.{n}"] for n in names]) for i in range(shape.layers)])

    def norms(name: str) -> Tensor:
        return torch.stack([stack(f"{name}.weight"), stack(f"{name}.bias")], dim=1)

    attention = tuple(f"attention.self.{part}" for part in ("query", "key", "value"))
    embed = "embeddings.LayerNorm"
    return EncoderWeights(
        shape=shape,
        words_VD=state["embeddings.word_embeddings.weight"],
        positions_SD=state["embeddings.position_embeddings.weight"]
        + state["embeddings.token_type_embeddings.weight"][0],
        norm_embed_2D=torch.stack((state[f"{embed}.weight"], state[f"{embed}.bias"])),
        qkv_LOD=stack(*(f"{part}.weight" for part in attention)),
        qkv_bias_LO=stack(*(f"{part}.bias" for part in attention)),
        out_LDD=stack("attention.output.dense.weight"),
        out_bias_LD=stack("attention.output.dense.bias"),
        norm_attention_L2D=norms("attention.output.LayerNorm"),
        up_LFD=stack("intermediate.dense.weight"),
        up_bias_LF=stack("intermediate.dense.bias"),
        down_LDF=stack("output.dense.weight"),
        down_bias_LD=stack("output.dense.bias"),
        norm_inner_L2D=norms("output.LayerNorm"),
    )


def unpack_encoder(weights: EncoderWeights) -> dict[str, Tensor]:
    """The state dict of a Hugging Face BertModel; its token types are 0, since the positions hold them already."""
    shape = weights.shape
    state = {
        "embeddings.word_embeddings.weight": weights.words_VD,
        "embeddings.position_embeddings.weight": weights.positions_SD,
        "embeddings.token_type_embeddings.weight": weights.positions_SD.new_zeros(2, shape.width),
        "embeddings.LayerNorm.weight": weights.norm_embed_2D[0],
        "embeddings.LayerNorm.bias": weights.norm_embed_2D[1],
    }
    for i in range(shape.layers):
        for index, part in enumerate(("query", "key", "value")):
            rows = slice(index * shape.width, (index + 1) * shape.width)
            state[f"encoder.layer.{i}.attention.self.{part}.weight"] = weights.qkv_LOD[i, rows]
            state[f"encoder.layer.{i}.attention.self.{part}.bias"] = weights.qkv_bias_LO[i, rows]
        for name, weight, bias in (
            ("attention.output.dense", weights.out_LDD[i], weights.out_bias_LD[i]),
            ("attention.output.LayerNorm", weights.norm_attention_L2D[i, 0], weights.norm_attention_L2D[i, 1]),
            ("intermediate.dense", weights.up_LFD[i], weights.up_bias_LF[i]),
            ("output.dense", weights.down_LDF[i], weights.down_bias_LD[i]),
            ("output.LayerNorm", weights.norm_inner_L2D[i, 0], weights.norm_inner_L2D[i, 1]),
        ):
            state[f"encoder.layer.{i}.{name}.weight"], state[f"encoder.layer.{i}.{name}.bias"] = weight, bias
    return state


@torch.no_grad()
def encode(weights: EncoderWeights, tokens_BS: Tensor, lengths_B: Tensor, *, sdpa: bool = False) -> Tensor:
    """Unit vectors (B, D), in float32 at least, of token ids padded on the right; `lengths_B` counts tokens."""
    shape = weights.shape

    def norm(x: Tensor, gain_bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (shape.width,), gain_bias[0], gain_bias[1], shape.epsilon)

    mask_BS = torch.arange(tokens_BS.shape[1], device=tokens_BS.device) < lengths_B[:, None]
    x = norm(
        functional.embedding(tokens_BS, weights.words_VD) + weights.positions_SD[: tokens_BS.shape[1]],
        weights.norm_embed_2D,
    )
    for i in range(shape.layers):
        qkv = functional.linear(x, weights.qkv_LOD[i], weights.qkv_bias_LO[i])
        q, k, v = qkv.unflatten(-1, (3, shape.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = _attend(q, k, v, mask_BS[:, None, None, :], sdpa).transpose(1, 2).flatten(-2)
        x = norm(
            x + functional.linear(attended, weights.out_LDD[i], weights.out_bias_LD[i]), weights.norm_attention_L2D[i]
        )
        inner = functional.gelu(functional.linear(x, weights.up_LFD[i], weights.up_bias_LF[i]))
        x = norm(x + functional.linear(inner, weights.down_LDF[i], weights.down_bias_LD[i]), weights.norm_inner_L2D[i])
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = (wide * mask_BS[..., None]).sum(1) / lengths_B[:, None].clamp_min(1)
    return functional.normalize(mean, dim=-1)


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, sdpa: bool) -> Tensor:
    if sdpa:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v


def encode_each(weights: EncoderWeights, tokens_BS: Tensor, lengths_B: Tensor) -> Tensor:
    """One text after another, cut to its length, each result fetched to the host as `SentenceTransformer.encode` does."""
    parts = []
    for tokens, length in zip(tokens_BS, lengths_B.tolist(), strict=True):
        one = encode(weights, tokens[None, :length], lengths_B.new_tensor([length]))
        parts.append(one.cpu())
    return torch.cat(parts).to(tokens_BS.device)


def retokenise(tokens_RT: Tensor, live_RT: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Token ids of the language model as ids of the encoder, [CLS] ... [SEP]: (R, T + 2) and lengths (R,).

    Where no tokenizers are there (random weights of a real shape) ids are folded into the encoder's vocabulary, which keeps
    the lengths and the work. The trainer's command line goes through the text instead.
    """
    low = min(999, vocabulary // 2)
    folded = tokens_RT % (vocabulary - low) + low
    lengths = live_RT.sum(-1) + 2
    padded = functional.pad(folded, (1, 1), value=min(SEP, vocabulary - 1))
    padded[:, 0] = min(CLS, vocabulary - 2)
    at = torch.arange(padded.shape[1], device=padded.device)
    padded = torch.where(at == lengths[:, None] - 1, min(SEP, vocabulary - 1), padded)
    return torch.where(at < lengths[:, None], padded, 0), lengths
