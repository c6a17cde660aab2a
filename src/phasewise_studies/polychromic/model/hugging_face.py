"""The same models as Hugging Face's own classes: for peers, for checks, and to read users' models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.model.encoder import EncoderWeights, unpack_encoder
from phasewise_studies.polychromic.model.weights import ModelShape, Weights, pack, unpack

# model types that the own loop decodes and trains
FAMILIES = ("llama", "mistral", "qwen3")


def describe_config(shape: ModelShape, dtype: torch.dtype, **extra: Any) -> dict[str, Any]:
    """A `config.json` that Hugging Face's LlamaForCausalLM or Qwen3ForCausalLM reads."""
    family = "qwen3" if shape.normed_heads else "llama"
    return {
        "architectures": [f"{family.capitalize()}ForCausalLM"],
        "model_type": family,
        "attention_bias": False,
        "head_dim": shape.head,
        "hidden_act": "silu",
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "max_position_embeddings": 8192,
        "mlp_bias": False,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "rms_norm_eps": shape.epsilon,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_base},
        "rope_theta": shape.rope_base,
        "tie_word_embeddings": shape.tied,
        "dtype": str(dtype).removeprefix("torch."),
        "vocab_size": shape.vocabulary,
        **extra,
    }


def make_library_model(weights: Weights, attention: str = "sdpa") -> Any:
    """A LlamaForCausalLM or Qwen3ForCausalLM with these weights, in their dtype, on the CPU; no token ends a text."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    kinds = (Qwen3Config, Qwen3ForCausalLM) if weights.shape.normed_heads else (LlamaConfig, LlamaForCausalLM)
    config = kinds[0](
        **describe_config(weights.shape, weights.embed_VD.dtype, bos_token_id=None, eos_token_id=None, pad_token_id=0),
        attn_implementation=attention,
    )
    model = kinds[1](config).to(weights.embed_VD.dtype)
    missing = model.load_state_dict(unpack(weights), strict=False).missing_keys
    assert set(missing) <= {"lm_head.weight"}, missing
    model.tie_weights()
    model.generation_config.eos_token_id = None
    return model.eval()


def generate_greedy(model: Any, prompts_PS: Tensor, lengths_P: Tensor, tokens: int) -> Tensor:
    """`generate` without sampling, one prompt after another: (P, T)."""
    found = []
    for prompt, length in zip(prompts_PS, lengths_P.tolist(), strict=True):
        inputs = prompt[None, :length]
        out = model.generate(
            inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
        )
        found.append(out[:, length:])
    return torch.cat(found)


def read_shape(config: Any) -> ModelShape:
    """Sizes from a Hugging Face configuration of a Llama, Mistral or Qwen3.

    Raises:
        UserError: its layers are not those of these three.
    """
    if config.model_type not in FAMILIES:
        raise UserError(
            f"the model's config.json has model_type {config.model_type!r}; the own decode loop takes {', '.join(FAMILIES)} only: "
            "use --decode library."
        )
    parameters = getattr(config, "rope_parameters", None) or {}
    plain = {
        "attention_bias": False,
        "mlp_bias": False,
        "hidden_act": "silu",
        "sliding_window": None,
        "rope_type": "default",
        "partial_rotary_factor": 1.0,
    }
    for name, allowed in plain.items():
        found = parameters.get(name, getattr(config, name, None))
        if found is not None and found != allowed:
            raise UserError(
                f"the model's config.json has {name} {found!r}; the own decode loop takes {allowed!r} only: use --decode library."
            )
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return ModelShape(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head=head,
        inner=config.intermediate_size,
        vocabulary=config.vocab_size,
        rope_base=float(parameters.get("rope_theta", getattr(config, "rope_theta", 10_000.0))),
        epsilon=config.rms_norm_eps,
        tied=bool(config.tie_word_embeddings),
        normed_heads=config.model_type == "qwen3",
    )


def pack_library_model(model: Any) -> Weights:
    """Packed weights of a LlamaForCausalLM, MistralForCausalLM or Qwen3ForCausalLM, in its dtype and on its device.

    Raises:
        UserError: its layers are not those of a Llama or Qwen3, or it has other weights beside them.
    """
    return pack(read_shape(model.config), model.state_dict())


def make_encoder_model(weights: EncoderWeights) -> torch.nn.Module:
    """A sentence-transformers module around a BertModel with these weights, without a tokeniser."""
    from transformers import BertConfig, BertModel

    shape = weights.shape
    config = BertConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.width, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        intermediate_size=shape.inner, max_position_embeddings=shape.positions, layer_norm_eps=shape.epsilon,
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False)
    model.load_state_dict(unpack_encoder(weights), strict=False)
    return TokenEmbeddings(model.eval())


class TokenEmbeddings(torch.nn.Module):
    """The first module of a SentenceTransformer: features in, `token_embeddings` added."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        hidden = self.model(input_ids=features["input_ids"], attention_mask=features["attention_mask"])
        return features | {"token_embeddings": hidden.last_hidden_state}

    def get_word_embedding_dimension(self) -> int:
        return int(self.model.config.hidden_size)
