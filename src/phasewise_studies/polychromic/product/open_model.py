"""A user's model as parts of the training step, with fresh adapters: Llama, Mistral and Qwen3 by our own loop, any other through its library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch

from phasewise.records.errors import UserError
from phasewise_studies.polychromic.model import hugging_face
from phasewise_studies.polychromic.model.joined_weights import join
from phasewise_studies.polychromic.model.llama import Forward
from phasewise_studies.polychromic.model.lora import draw_flat, make_lora, merge
from phasewise_studies.polychromic.model.sampling import Sampling
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.product.adapter import ADAPTER, write_adapter
from phasewise_studies.polychromic.product.export import (
    PROGRAM,
    carry_facts,
    export_program,
    write_generation,
    write_model,
)
from phasewise_studies.polychromic.product.library_model import open_library
from phasewise_studies.polychromic.product.user_model import Tuning, UserModel, find_ends, open_tokenizer, refuse_long
from phasewise_studies.polychromic.switches import Switches
from phasewise_studies.polychromic.variants.generation import make_generator
from phasewise_studies.polychromic.variants.learning import why_not_fused


def open_model(
    path: Path, sizes: Sizes, sampling: Sampling, device: torch.device, dtype: torch.dtype, tuning: Tuning, *,
    decode: str, end: int | None, length: int, attention: str = "sdpa",
) -> UserModel:  # fmt: skip
    """`decode`: own (Llama, Mistral, Qwen3) or library (any causal model). `end`: the tokenizer's end of text, if it names one.
    `length`: tokens of the longest example. `attention`: the library's, with decode="library".

    Raises:
        UserError: the folder is no model, of another kind with decode="own", has fewer positions than tokens are wanted, or nothing
            ends a text.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, attn_implementation=attention)
    except ImportError as error:
        raise UserError(
            f"--attention {attention}: {shorten(str(error), 120)}; install that package, or take --attention sdpa."
        ) from error
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(
            f"model {path} cannot be loaded: {shorten(str(error), 100)}; give a Hugging Face model folder."
        ) from error
    refuse_long(model, max(length, sizes.prompt_length + sizes.tokens))
    ends = find_ends(model, end)
    if decode == "library":
        return open_library(model, sizes, sampling, device, tuning, ends)
    weights = hugging_face.pack_library_model(model).to(device, dtype)
    flat = draw_flat(weights.shape, tuning.rank, tuning.seed + 1)
    # a fresh adapter changes nothing: B = 0
    lora = make_lora(weights.shape, flat, device, torch.float32, rank=tuning.rank, alpha=tuning.alpha)
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
        merged = merge(weights, lora).to("cpu", dtype)
        write_model(merged, folder, **carry_facts(model.config, ends))
        write_generation(model.generation_config, ends, folder)
        torch.export.save(export_program(merged), folder / PROGRAM)
        write_adapter(lora, str(path), folder / ADAPTER)

    reason = "the fused layers have no dropout, the plain layers learn" if tuning.dropout else ""
    reason = reason or why_not_fused(replace(switches, checkpointing=tuning.checkpointing), weights)
    joined = None if reason else join(weights, lora)
    note = "; ".join((*generator.fallbacks, *([f"fused-learning: {reason}"] if reason else []))) or "own decode loop"
    return UserModel(
        forward=Forward(
            weights=weights,
            lora=lora,
            sdpa=True,
            dropout=tuning.dropout,
            checkpointing=tuning.checkpointing,
            joined=joined,
        ),
        lora=lora,
        generate=generator.generate,
        ends=ends,
        table=weights.embed_VD,
        export=export,
        note=note,
    )


def open_run(plain: dict[str, Any], device: torch.device) -> tuple[UserModel, Any]:
    """What the options of a run name: its model with fresh adapters, and its tokenizer."""
    model = Path(plain["model"])
    tokenizer = open_tokenizer(model)
    sizes = Sizes(
        prompts=plain["micro"] * plain["accumulate"],
        replies=plain["replies"],
        prompt_length=plain["prompt"],
        tokens=plain["tokens"],
    )
    user = open_model(
        model, sizes, Sampling(plain["temperature"], plain["top_p"]), device, torch.bfloat16 if plain["dtype"] == "bfloat16" else torch.float32,
        Tuning(rank=plain["rank"], alpha=plain["alpha"], dropout=plain["dropout"], seed=plain["seed"],
            checkpointing=plain.get("checkpointing", False)),
        decode=plain["decode"], attention=plain.get("attention", "sdpa"), end=tokenizer.eos_token_id, length=plain["length"],
    )  # fmt: skip
    return user, tokenizer
