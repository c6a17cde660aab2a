"""Any causal language model through its library: adapters by PEFT, replies and gradients by transformers."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from phasewise_studies.polychromic.model.lora import Lora
from phasewise_studies.polychromic.model.replies import Replies
from phasewise_studies.polychromic.model.sampling import Sampling
from phasewise_studies.polychromic.model.shared_cache import Sizes
from phasewise_studies.polychromic.product.adapter import ADAPTER
from phasewise_studies.polychromic.product.export import SCRIPT, write_ends, write_generation
from phasewise_studies.polychromic.product.user_model import Tuning, UserModel

# what a causal language model of any kind is adapted in
ALL_LINEAR = "all-linear"


def open_library(
    model: Any, sizes: Sizes, sampling: Sampling, device: torch.device, tuning: Tuning, ends: tuple[int, ...]
) -> UserModel:  # fmt: skip
    """Replies by `generate`, which draws its own random numbers: seeded anew by each step's uniforms."""
    from peft import LoraConfig, get_peft_model

    # PEFT draws the adapters' first values from torch's own generator
    torch.manual_seed(tuning.seed)
    if tuning.checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    adapted = get_peft_model(
        model.to(device),
        LoraConfig(
            r=tuning.rank,
            lora_alpha=tuning.alpha,
            lora_dropout=tuning.dropout,
            target_modules=ALL_LINEAR,
            task_type="CAUSAL_LM",
        ),
    )
    lora = _flatten(adapted, tuning.rank, tuning.alpha)

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
        adapted.save_pretrained(folder / ADAPTER)
        merged = copy.deepcopy(adapted).merge_and_unload()
        merged.config.eos_token_id = write_ends(ends)
        merged.save_pretrained(folder)
        write_generation(model.generation_config, ends, folder)
        shutil.copyfile(Path(__file__).with_name("standalone_library.py"), folder / SCRIPT)

    return UserModel(
        forward=forward,
        lora=lora,
        generate=generate,
        ends=ends,
        table=model.get_input_embeddings().weight.detach(),
        export=export,
        note="replies by transformers",
    )


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
