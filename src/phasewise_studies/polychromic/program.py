"""The polychromic trainer as programs: inputs, the build of every variant, the reference and the declared work."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from phasewise import Program, Shape, Work
from phasewise_studies.polychromic import data, pieces
from phasewise_studies.polychromic import reference as plain
from phasewise_studies.polychromic.data import prepare
from phasewise_studies.polychromic.encoder import CLS, ENCODERS, SEP
from phasewise_studies.polychromic.learning import build_learning
from phasewise_studies.polychromic.phases import Switches
from phasewise_studies.polychromic.weights import SHAPES
from phasewise_studies.polychromic.work import count_work

__all__ = ["build", "make_inputs", "prepare", "reference", "work"]

LEARNING = ("train-step", "micro-step", "window", "many-steps")


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
    return _prompts(shape.prompts, shape, vocabulary, generator)


def build(switches: Switches, inputs: dict[str, Tensor], case: str, shape: Shape, device: torch.device) -> Program:
    """One variant of one case."""
    # float32 means float32 here, whatever ran before in this process
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    if case == "diversity":
        return pieces.build_diversity(switches, inputs, device)
    if case == "encode":
        return pieces.build_encoder(switches, inputs, shape, device)
    if case in LEARNING:
        return build_learning(switches, inputs, shape, device)
    return pieces.build_replies(switches, shape, device)


def reference(inputs: dict[str, Tensor], case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """Plain PyTorch in float64."""
    if case == "diversity":
        return plain.diversity()
    if case == "encode":
        return plain.encoder(shape)
    if case in LEARNING:
        return plain.learning(shape)
    return plain.replies(shape)


def work(case: str, shape: Shape) -> Work:
    """What one step has to do at least."""
    return count_work(case, shape)


def _prompts(count: int, shape: Shape, vocabulary: int, generator: torch.Generator) -> dict[str, Tensor]:
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
    return batch | (_prompts(shape.examples, shape, vocabulary, generator) if shape.replies else {})


def _encoder_inputs(shape: Shape, generator: torch.Generator) -> dict[str, Tensor]:
    vocabulary = ENCODERS[shape.encoder].vocabulary
    tokens = data.cut_texts(vocabulary, shape.texts, shape.tokens + 2, generator)
    lengths = torch.randint(shape.tokens // 2, shape.tokens + 3, (shape.texts,), generator=generator)
    at = torch.arange(shape.tokens + 2)
    tokens[:, 0] = min(CLS, vocabulary - 2)
    tokens = torch.where(at == lengths[:, None] - 1, min(SEP, vocabulary - 1), tokens)
    return {"tokens": torch.where(at < lengths[:, None], tokens, 0), "lengths": lengths}
