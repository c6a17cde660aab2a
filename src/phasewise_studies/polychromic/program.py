"""The polychromic trainer as programs: inputs, the build of every variant, the reference and the declared work."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from phasewise import Program, Shape, Work
from phasewise_studies.polychromic import data
from phasewise_studies.polychromic.audit import audit
from phasewise_studies.polychromic.data import prepare
from phasewise_studies.polychromic.model.encoder import CLS, ENCODERS, SEP
from phasewise_studies.polychromic.model.lora import count_parameters
from phasewise_studies.polychromic.model.weights import SHAPES
from phasewise_studies.polychromic.reference import LEARNING, reference
from phasewise_studies.polychromic.switches import Switches

__all__ = ["audit", "build", "make_inputs", "prepare", "reference", "work"]

# bfloat16
ELEMENT = 2


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, Tensor]:
    """Token ids of real text, lengths of prompts, one uniform number a sampled token; steps along the first dimension.

    encode: tokens (B, S), lengths (B,). diversity: unit vectors (G, n, d). The models are not inputs: they are the same for
    every seed, and come from `data`.
    """
    generator = torch.Generator().manual_seed(seed)
    if case == "diversity":
        e = torch.randn(shape.groups, shape.replies, shape.width, dtype=torch.float64, generator=generator)
        # replies to one prompt have something in common
        shared = torch.randn(shape.groups, 1, shape.width, dtype=torch.float64, generator=generator)
        return {"e": functional.normalize(e + shared, dim=-1)}
    if case == "encode":
        return _encoder_inputs(shape, generator)
    vocabulary = SHAPES[shape.model].vocabulary
    if case in LEARNING:
        parts = [_learning_inputs(shape, vocabulary, generator) for _ in range(shape.steps)]
        return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
    return _draw_prompts(shape.prompts, shape, vocabulary, generator)


def build(switches: Switches, inputs: dict[str, Tensor], case: str, shape: Shape, device: torch.device) -> Program:
    """One variant of one case."""
    # float32 means float32 here, whatever ran before in this process
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    if case == "diversity":
        from phasewise_studies.polychromic.variants.diversity import build_diversity

        return build_diversity(switches, inputs, device)
    if case == "encode":
        from phasewise_studies.polychromic.variants.encoding import build_encoder

        return build_encoder(switches, inputs, shape, device)
    if case in LEARNING:
        from phasewise_studies.polychromic.variants.learning import build_learning

        return build_learning(switches, inputs, shape, device)
    from phasewise_studies.polychromic.variants.replies import build_replies

    return build_replies(switches, shape, device)


def work(case: str, shape: Shape) -> Work:
    """What one step has to do at least: Q parameters of the projections, V D head, E bytes a number.

    Decoding T tokens reads all weights T times, whatever the number of replies: with 269 MB of SmolLM2 in bfloat16 that is the floor.
    """
    if case == "diversity":
        size = 4 * shape.groups * (shape.replies * shape.width + 1 + shape.replies)
        # sum, square and dot product: six operations an element
        flops = 6 * shape.groups * shape.replies * shape.width
        return Work(items=shape.groups, flops=flops, bytes=size, working_set_bytes=size, item="groups")
    if case == "encode":
        flops, size = _work_of_encoder(shape.encoder, shape.texts, shape.tokens + 2)
        return Work(
            items=shape.texts,
            flops=flops,
            bytes=size,
            working_set_bytes=size,
            dtype=_floor_dtype(shape.encoder),
            item="texts",
        )
    if "examples" not in shape:
        flops, size = _work_of_replies(shape, shape.prompts)
        return Work(
            items=shape.prompts * shape.replies * shape.tokens, flops=flops, bytes=size, working_set_bytes=_weight_bytes(shape.model),
            dtype=_floor_dtype(shape.model), item="tokens",
        )  # fmt: skip
    flops, size = _work_of_learning(shape)
    return Work(
        items=shape.steps * shape.examples, flops=shape.steps * flops, bytes=shape.steps * size,
        working_set_bytes=_weight_bytes(shape.model), dtype=_floor_dtype(shape.model), item="examples",
    )  # fmt: skip


def _draw_prompts(count: int, shape: Shape, vocabulary: int, generator: torch.Generator) -> dict[str, Tensor]:
    tokens = data.cut_texts(vocabulary, count, shape.prompt, generator)
    lengths = torch.randint(max(shape.prompt // 2, 1), shape.prompt + 1, (count,), generator=generator)
    return {
        "prompts": torch.where(torch.arange(shape.prompt) < lengths[:, None], tokens, 0),
        "lengths": lengths,
        "uniforms": torch.rand(count * shape.replies, shape.tokens, dtype=torch.float64, generator=generator),
    }


def _learning_inputs(shape: Shape, vocabulary: int, generator: torch.Generator) -> dict[str, Tensor]:
    """An example is a stretch of text of which the second part is to be learnt; its prompt is the end of the first."""
    text = data.cut_texts(vocabulary, shape.examples, shape.length, generator)
    learnt = torch.arange(shape.length) >= shape.length // 2
    batch = {"tokens": text, "is_reply": learnt.long().expand(shape.examples, -1).contiguous()}
    return batch | (_draw_prompts(shape.examples, shape, vocabulary, generator) if shape.replies else {})


def _encoder_inputs(shape: Shape, generator: torch.Generator) -> dict[str, Tensor]:
    vocabulary = ENCODERS[shape.encoder].vocabulary
    tokens = data.cut_texts(vocabulary, shape.texts, shape.tokens + 2, generator)
    lengths = torch.randint(shape.tokens // 2, shape.tokens + 3, (shape.texts,), generator=generator)
    at = torch.arange(shape.tokens + 2)
    tokens[:, 0] = min(CLS, vocabulary - 2)
    tokens = torch.where(at == lengths[:, None] - 1, min(SEP, vocabulary - 1), tokens)
    return {"tokens": torch.where(at < lengths[:, None], tokens, 0), "lengths": lengths}


def _floor_dtype(name: str) -> str:
    return "float32" if name == "tiny" else "bfloat16"


def _count_parameters(name: str) -> int:
    model = SHAPES[name]
    return model.layers * model.layer_parameters + model.vocabulary * model.width


def _weight_bytes(name: str) -> float:
    return ELEMENT * _count_parameters(name)


def _work_of_replies(shape: Shape, prompts: int) -> tuple[float, float]:
    """One prefill, then one pass over the weights for each further token; a key and a value a position, layer and key head."""
    model, rows = SHAPES[shape.model], prompts * shape.replies
    # on average a prompt has three quarters of its room, and a reply half of its tokens
    seen = 0.75 * shape.prompt * prompts + 0.5 * shape.tokens * rows
    cache = 2 * ELEMENT * model.layers * model.kv_size * seen * shape.tokens
    body = model.layers * model.layer_parameters
    flops = 2 * body * (0.75 * shape.prompt * prompts + rows * shape.tokens)
    flops += 2 * model.vocabulary * model.width * rows * shape.tokens
    return flops, shape.tokens * _weight_bytes(shape.model) + cache


def _work_of_encoder(name: str, texts: int, length: int) -> tuple[float, float]:
    encoder = ENCODERS[name]
    body = encoder.layers * (4 * encoder.width**2 + 2 * encoder.width * encoder.inner)
    # texts have three quarters of their room on average
    return 2 * body * texts * 0.75 * length, ELEMENT * body


def _work_of_learning(shape: Shape) -> tuple[float, float]:
    """Forward, and backward to the activations alone since the weights are frozen: 4 operations a parameter and token."""
    tokens = shape.examples * shape.length
    size = 2.0 * _weight_bytes(shape.model) * (shape.examples // shape.micro)
    # gradients, parameters and two moments of the adapters in float32, read and written
    size += 8 * 4 * count_parameters(SHAPES[shape.model])
    flops = 0.0
    if shape.replies:
        generated, read = _work_of_replies(shape, shape.examples)
        encoded, encoder_bytes = _work_of_encoder(shape.encoder, shape.examples * shape.replies, shape.tokens + 2)
        flops += generated + encoded
        size += read + encoder_bytes
        tokens += shape.examples * shape.replies * (0.75 * shape.prompt + shape.tokens)
    return flops + 4.0 * _count_parameters(shape.model) * tokens, size
