"""The same pieces of work by transformers, sentence-transformers, Liger and Unsloth, on the same weights where they take them, and by plain torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.model.diversity import diversity_closed
from phasewise_studies.polychromic.model.hugging_face import make_encoder_model, make_library_model
from phasewise_studies.polychromic.model.lora import ALPHA, RANK
from phasewise_studies.polychromic.model.optimizer import LEARNING_RATE, WEIGHT_DECAY
from phasewise_studies.polychromic.variants.common import SAMPLING

Batch = Mapping[str, Tensor]


def generate_batched(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """transformers.generate with num_return_sequences, all prompts at once, dynamic cache, SDPA, bfloat16."""
    return _generate(shape, device, shape.replies)


def generate_static_compiled(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """transformers.generate with a static cache, whose forward it compiles to CUDA graphs itself."""
    return _generate(shape, device, shape.replies, cache_implementation="static")


def generate_sequential(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """transformers.generate once a reply, float32 and eager attention, as the document begins."""
    weights = data.load_model(shape.model)[0]
    model = make_library_model(weights, "eager").to(device)
    options = _options(shape)

    def step(batch: tuple[Tensor, list[int]]) -> Tensor:
        prompts, lengths = batch
        texts = []
        for prompt, length in zip(prompts, lengths, strict=True):
            one = prompt[None, :length]
            texts += [
                model.generate(one, attention_mask=torch.ones_like(one), **options)[:, length:]
                for _ in range(shape.replies)
            ]
        return torch.cat(texts)

    def place(batch: Batch) -> tuple[Tensor, list[int]]:
        return batch["prompts"][0].to(device), batch["lengths"][0].tolist()

    return Program(step=step, place=place, outputs=lambda raw: {"tokens": raw})


def generate_continuous(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """transformers.generate_batch: continuous batching over a paged cache."""
    from transformers import GenerationConfig

    model = make_library_model(data.load_model(shape.model)[0].to("cpu", torch.bfloat16), "sdpa").to(device)
    config = GenerationConfig(**_options(shape), eos_token_id=-1, max_batch_tokens=4096)

    def step(prompts: list[list[int]]) -> Tensor:
        found = model.generate_batch(inputs=prompts, generation_config=config, progress_bar=False)
        return torch.tensor([one.generated_tokens for one in found.values()])

    def place(batch: Batch) -> list[list[int]]:
        rows = zip(batch["prompts"].tolist(), batch["lengths"].tolist(), strict=True)
        return [prompt[:length] for prompt, length in rows for _ in range(shape.replies)]

    return Program(step=step, place=place, outputs=lambda raw: {"tokens": raw})


def sentence_transformers(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The layers that SentenceTransformer.encode runs, normalised, on token ids: its tokeniser is not in the step."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    encoder = make_encoder_model(data.load_encoder(shape.encoder)[0])
    model = SentenceTransformer(
        modules=[encoder, Pooling(encoder.get_word_embedding_dimension(), "mean"), Normalize()], device=str(device)
    )
    model.eval()

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        with torch.inference_mode():
            return {"e": model(dict(batch))["sentence_embedding"]}

    def place(batch: Batch) -> dict[str, Tensor]:
        mask = torch.arange(batch["tokens"].shape[1]) < batch["lengths"][:, None]
        return {"input_ids": batch["tokens"].to(device), "attention_mask": mask.long().to(device)}

    return Program(step=step, place=place, outputs=lambda raw: {"e": raw["e"]})


def cosine_matrix(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """util.cos_sim of each group, and the mean of its upper half; the marginals from the same matrices."""
    from sentence_transformers.util import cos_sim

    n = shape.replies
    above = torch.ones(n, n, dtype=torch.bool, device=device).triu(1)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        distances = 1 - torch.stack([cos_sim(e, e) for e in batch["e"]])
        upper = distances * above
        whole = upper.sum((1, 2))
        score = whole / (n * (n - 1) / 2)
        touching = upper.sum(1) + upper.sum(2)
        rest = (whole[:, None] - touching) / max((n - 1) * (n - 2) / 2, 1)
        return {"score": score, "marginals": score[:, None] - rest}

    return Program(step=step)


def torch_batched(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """All groups at once in plain torch: one batched product, the sums of its rows, and what of them touches each reply."""

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        n = batch["e"].shape[1]
        cosines = batch["e"] @ batch["e"].mT
        touching = (n - 1) - (cosines.sum(-1) - cosines.diagonal(dim1=-2, dim2=-1))
        whole = touching.sum(-1) / 2
        score = whole / max(n * (n - 1) / 2, 1)
        rest = (whole[:, None] - touching) / max((n - 1) * (n - 2) / 2, 1)
        return {"score": score, "marginals": score[:, None] - rest}

    return Program(step=step)


def compiled_closed_form(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The closed form under torch.compile: what the compiler makes of our algorithm, without a kernel of one's own."""
    compute = torch.compile(diversity_closed, dynamic=False)

    def step(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        score, marginals = compute(batch["e"])
        return {"score": score, "marginals": marginals}

    return Program(step=step)


def liger(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """LlamaForCausalLM with Liger's kernels and PEFT's adapters: forward, backward, AdamW."""
    from liger_kernel.transformers import apply_liger_kernel_to_llama

    apply_liger_kernel_to_llama(rope=True, rms_norm=True, swiglu=True, fused_linear_cross_entropy=True)
    return _learn_with_peft(shape, device, _add_adapters)


def unsloth(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """Unsloth's patched layers and manual backward pass of the adapters."""
    from unsloth import FastLanguageModel

    def add(model: Any) -> Any:
        return FastLanguageModel.get_peft_model(
            model, r=RANK, lora_alpha=ALPHA, lora_dropout=0, target_modules=TARGETS, use_gradient_checkpointing=False
        )

    return _learn_with_peft(shape, device, add)


TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def _options(shape: Shape) -> dict[str, Any]:
    return {
        "do_sample": True,
        "temperature": SAMPLING.temperature,
        "top_p": SAMPLING.top_p,
        "top_k": 0,
        "max_new_tokens": shape.tokens,
        "min_new_tokens": shape.tokens,
    }


def _generate(shape: Shape, device: torch.device, replies: int, **extra: Any) -> Program:
    model = make_library_model(data.load_model(shape.model)[0].to("cpu", torch.bfloat16)).to(device)
    options = {**_options(shape), **extra}

    def step(batch: dict[str, Tensor]) -> Tensor:
        out = model.generate(**batch, num_return_sequences=replies, **options)
        return out[:, batch["input_ids"].shape[1] :]

    def place(batch: Batch) -> dict[str, Tensor]:
        # generate wants the padding on the left
        width = batch["prompts"].shape[1]
        at = torch.arange(width) - (width - batch["lengths"][:, None])
        tokens = batch["prompts"].gather(1, at.clamp_min(0)).masked_fill(at < 0, 0)
        return {"input_ids": tokens.to(device), "attention_mask": (at >= 0).long().to(device)}

    return Program(step=step, place=place, outputs=lambda raw: {"tokens": raw})


def _add_adapters(model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=TARGETS))


def _learn_with_peft(shape: Shape, device: torch.device, add: Callable[[Any], Any]) -> Program:
    model = add(make_library_model(data.load_model(shape.model)[0].to("cpu", torch.bfloat16)).to(device)).train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=device.type == "cuda")

    def step(batch: dict[str, Tensor]) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=batch["tokens"], labels=batch["labels"]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        return loss.detach()

    def place(batch: Batch) -> dict[str, Tensor]:
        tokens, learnt = batch["tokens"][0], batch["is_reply"][0]
        return {"tokens": tokens.to(device), "labels": tokens.masked_fill(learnt == 0, -100).to(device)}

    return Program(step=step, place=place, outputs=lambda raw: {"quality": raw[None]})
