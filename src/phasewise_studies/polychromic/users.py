"""A user's model as parts of the training step: Llama-shaped ones by our own loop, any other through its library."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten

import torch

from phasewise.records.errors import UserError
from phasewise_studies.polychromic import library
from phasewise_studies.polychromic.export import PROGRAM, carry_facts, export_program, write_generation, write_model
from phasewise_studies.polychromic.generation import make_generator
from phasewise_studies.polychromic.joined import join
from phasewise_studies.polychromic.learning import why_not_fused
from phasewise_studies.polychromic.llama import Forward
from phasewise_studies.polychromic.lora import draw_flat, make_lora, merge
from phasewise_studies.polychromic.phases import Switches
from phasewise_studies.polychromic.sampling import Sampling
from phasewise_studies.polychromic.shared import Sizes
from phasewise_studies.polychromic.user_parts import Tuning, UserModel, find_ends, refuse_long
from phasewise_studies.polychromic.users_library import open_library


def open_model(
    path: Path, sizes: Sizes, sampling: Sampling, device: torch.device, dtype: torch.dtype, tuning: Tuning, *,
    decode: str, end: int | None, length: int,
) -> UserModel:  # fmt: skip
    """`decode`: own (Llama-shaped models) or library (any causal model). `end`: the tokenizer's end of text, if it names one.
    `length`: tokens of the longest example.

    Raises:
        UserError: the folder is no model, not Llama-shaped with decode="own", has fewer positions than tokens are wanted, or nothing
            ends a text.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(
            f"model {path} cannot be loaded: {shorten(str(error), 100)}; give a Hugging Face model folder."
        ) from error
    refuse_long(model, max(length, sizes.prompt_length + sizes.tokens))
    ends = find_ends(model, end)
    if decode == "library":
        return open_library(model, sizes, sampling, device, tuning, ends)
    weights = library.pack_library_model(model).to(device, dtype)
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

    note = "; ".join(generator.fallbacks) or "own decode loop"
    joined = None if tuning.dropout or tuning.checkpointing or why_not_fused(switches, weights) else join(weights, lora)
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
