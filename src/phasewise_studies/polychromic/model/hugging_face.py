"""The same models as Hugging Face's own classes: for peers, for checks, and to read users' models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.model.encoder import EncoderWeights, unpack_encoder
from phasewise_studies.polychromic.model.weights import ModelShape, Weights, pack, unpack


def describe_config(shape: ModelShape, dtype: torch.dtype, **extra: Any) -> dict[str, Any]:
    """A `config.json` that Hugging Face's LlamaForCausalLM reads."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
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
    """A LlamaForCausalLM with these weights, in their dtype, on the CPU; no token ends a text."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        **describe_config(weights.shape, weights.embed_VD.dtype, bos_token_id=None, eos_token_id=None, pad_token_id=0),
        attn_implementation=attention,
    )
    model = LlamaForCausalLM(config).to(weights.embed_VD.dtype)
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
    """Sizes from a Hugging Face configuration of a Llama-shaped model.

    Raises:
        UserError: its layers are not those of a Llama.
    """
    if config.model_type not in ("llama", "mistral"):
        raise UserError(
            f"model type {config.model_type!r} is not Llama-shaped; the own decode loop takes llama and mistral models, "
            "others train with --decode library."
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
    )


def pack_library_model(model: Any) -> Weights:
    """Packed weights of a LlamaForCausalLM or MistralForCausalLM, in its dtype and on its device.

    Raises:
        UserError: its layers are not those of a Llama, or it has other weights beside them.
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
