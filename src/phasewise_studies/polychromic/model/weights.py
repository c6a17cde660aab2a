"""Weights of a Llama- or Qwen3-shaped language model, packed: one tensor a kind of layer, layers along the first dimension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from phasewise.records.errors import UserError

# so that logits of random weights have a standard deviation of about 2: far from flat, and none so large that bfloat16, in which
# numbers from 16 on are an eighth apart, would hide the errors that are looked for
RANDOM_NORM_GAIN = 2.0


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Sizes of a Llama: `heads` query heads share `kv_heads` keys and values of `head` features each.

    `heads` x `head` need not be `width`. A Qwen3 is a Llama with `normed_heads`: an RMSNorm of each query and key before it is turned.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    vocabulary: int
    rope_base: float = 10_000.0
    epsilon: float = 1e-5
    tied: bool = True
    normed_heads: bool = False

    @property
    def q_size(self) -> int:
        """Features of all query heads together."""
        return self.heads * self.head

    @property
    def kv_size(self) -> int:
        """Features of all keys of a token together, and of all its values."""
        return self.kv_heads * self.head

    @property
    def layer_parameters(self) -> int:
        """Weights of the seven projections of one layer."""
        return self.width * (2 * self.q_size + 2 * self.kv_size + 3 * self.inner)


# HuggingFaceTB/SmolLM2-135M-Instruct, config.json
SMOLLM2 = ModelShape(
    layers=30, width=576, heads=9, kv_heads=3, head=64, inner=1536, vocabulary=49_152, rope_base=100_000.0
)
TINY = ModelShape(layers=2, width=48, heads=3, kv_heads=1, head=16, inner=80, vocabulary=193)
# Qwen/Qwen3-8B, config.json: the document's own
QWEN3_8B = ModelShape(
    layers=36, width=4096, heads=32, kv_heads=8, head=128, inner=12_288, vocabulary=151_936, rope_base=1_000_000.0,
    epsilon=1e-6, tied=False, normed_heads=True,
)  # fmt: skip
SHAPES = {"smollm2": SMOLLM2, "tiny": TINY, "qwen3-8b": QWEN3_8B}


@dataclass(frozen=True, kw_only=True)
class Weights:
    """L layers, D width, Q and K sizes of queries and keys, F inner, V vocabulary; rows are outputs, as in torch.nn.Linear."""

    shape: ModelShape
    embed_VD: Tensor
    # queries, keys and values below each other
    qkv_LOD: Tensor
    out_LDQ: Tensor
    # gate above up
    gate_up_LFD: Tensor
    down_LDF: Tensor
    norm_attention_LD: Tensor
    norm_inner_LD: Tensor
    norm_D: Tensor
    # the embedding itself where the two are tied
    head_VD: Tensor
    # E features of a head: gains of queries and keys where `shape.normed_heads`
    norm_q_LE: Tensor | None = None
    norm_k_LE: Tensor | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Those that the model has, by name."""
        held = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "shape"}
        return {name: tensor for name, tensor in held.items() if tensor is not None}

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Weights:
        """A copy elsewhere or in another dtype; tied tensors stay one."""
        moved = {name: tensor.to(device, dtype) for name, tensor in self.tensors().items()}
        if self.shape.tied:
            moved["head_VD"] = moved["embed_VD"]
        return replace(self, **moved)


def draw_weights(shape: ModelShape, seed: int = 0) -> Weights:
    """Random weights that bfloat16 holds exactly, so that every precision starts from the same model."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int, deviation: float) -> Tensor:
        return (torch.randn(*size, generator=generator) * deviation).to(torch.bfloat16).float()

    layers, width = shape.layers, shape.width
    embed = draw(shape.vocabulary, width, deviation=width**-0.5)
    return Weights(
        shape=shape,
        embed_VD=embed,
        qkv_LOD=draw(layers, shape.q_size + 2 * shape.kv_size, width, deviation=width**-0.5),
        out_LDQ=draw(layers, width, shape.q_size, deviation=shape.q_size**-0.5),
        gate_up_LFD=draw(layers, 2 * shape.inner, width, deviation=width**-0.5),
        down_LDF=draw(layers, width, shape.inner, deviation=shape.inner**-0.5),
        norm_attention_LD=1 + draw(layers, width, deviation=0.1),
        norm_inner_LD=1 + draw(layers, width, deviation=0.1),
        norm_D=RANDOM_NORM_GAIN + draw(width, deviation=0.1),
        head_VD=embed if shape.tied else draw(shape.vocabulary, width, deviation=width**-0.5),
        **{name: 1 + draw(layers, shape.head, deviation=0.1) for name in HEAD_NORM_NAMES if shape.normed_heads},
    )


def draw_large(shape: ModelShape, seed: int = 0) -> Weights:
    """Random weights of which every layer has the same, in the memory of one: on a device they are as many as another model's.

    8 B float32 numbers are 32 GB in the memory of every process that holds them.
    """
    one = draw_weights(replace(shape, layers=1), seed)
    layers = {
        name: getattr(one, name).expand(shape.layers, -1, -1)
        for name in ("qkv_LOD", "out_LDQ", "gate_up_LFD", "down_LDF")
    }
    norms = {
        name: tensor.expand(shape.layers, -1)
        for name, tensor in one.tensors().items()
        if name.startswith("norm_") and tensor.ndim == 2
    }
    return replace(one, shape=shape, **layers, **norms)


# packed name -> names of Hugging Face's LlamaForCausalLM and Qwen3ForCausalLM below `model.layers.<i>.`, stacked along the rows
LAYER_NAMES = {
    "qkv_LOD": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out_LDQ": ("self_attn.o_proj",),
    "gate_up_LFD": ("mlp.gate_proj", "mlp.up_proj"),
    "down_LDF": ("mlp.down_proj",),
    "norm_attention_LD": ("input_layernorm",),
    "norm_inner_LD": ("post_attention_layernorm",),
}
HEAD_NORM_NAMES = {"norm_q_LE": ("self_attn.q_norm",), "norm_k_LE": ("self_attn.k_norm",)}


def list_layer_names(shape: ModelShape) -> dict[str, tuple[str, ...]]:
    """Packed name -> Hugging Face's names in one layer, of the tensors that this model has."""
    return LAYER_NAMES | (HEAD_NORM_NAMES if shape.normed_heads else {})


def pack(shape: ModelShape, state: Mapping[str, Tensor]) -> Weights:
    """Weights from the state dict of a LlamaForCausalLM or Qwen3ForCausalLM, in its dtype.

    Raises:
        UserError: tensors are missing, or left over: a model with biases is another model without them.
    """
    names = list_layer_names(shape)
    wanted = {f"model.layers.{i}.{p}.weight" for parts in names.values() for p in parts for i in range(shape.layers)}
    wanted |= {"model.embed_tokens.weight", "model.norm.weight"}
    wanted |= set() if shape.tied else {"lm_head.weight"}
    # a tied head may be written beside its embedding, and older files hold the angles' table
    held = {
        name
        for name in state
        if not name.endswith("rotary_emb.inv_freq") and not (shape.tied and name == "lm_head.weight")
    }
    family = "Qwen3" if shape.normed_heads else "Llama"
    for odd, what in ((wanted - held, "lacks"), (held - wanted, f"has, beside those of a {family},")):
        if odd:
            raise UserError(f"the model {what} {len(odd)} tensors, {min(odd)} the first of them; use --decode library.")
    packed = {
        name: torch.stack(
            [torch.cat([state[f"model.layers.{i}.{p}.weight"] for p in parts]) for i in range(shape.layers)]
        )
        for name, parts in names.items()
    }
    embed = state["model.embed_tokens.weight"]
    return Weights(
        shape=shape,
        embed_VD=embed,
        norm_D=state["model.norm.weight"],
        head_VD=embed if shape.tied else state["lm_head.weight"],
        **packed,
    )


def unpack(weights: Weights) -> dict[str, Tensor]:
    """The state dict of a LlamaForCausalLM or Qwen3ForCausalLM; a tied head is left out, as Hugging Face does."""
    shape = weights.shape
    sizes = {
        "qkv_LOD": (shape.q_size, shape.kv_size, shape.kv_size),
        "gate_up_LFD": (shape.inner, shape.inner),
    }
    state = {"model.embed_tokens.weight": weights.embed_VD, "model.norm.weight": weights.norm_D}
    if not shape.tied:
        state["lm_head.weight"] = weights.head_VD
    for name, parts in list_layer_names(shape).items():
        stacked = getattr(weights, name)
        split = stacked.split(sizes[name], dim=1) if name in sizes else (stacked,)
        for part, tensor in zip(parts, split, strict=True):
            for i in range(shape.layers):
                state[f"model.layers.{i}.{part}.weight"] = tensor[i]
    return state
