"""Operations and bytes that each case needs at least. Legend: Q parameters of the projections, V D head, E bytes a number.

Decoding T tokens reads all weights T times, whatever the number of replies: with 269 MB of SmolLM2 in bfloat16 that is the floor.
"""

from __future__ import annotations

from phasewise import Shape, Work
from phasewise_studies.polychromic.encoder import ENCODERS
from phasewise_studies.polychromic.lora import count_parameters
from phasewise_studies.polychromic.weights import SHAPES

# bfloat16
ELEMENT = 2


def count_work(case: str, shape: Shape) -> Work:
    """The declared work of one step."""
    if case == "diversity":
        size = 4 * shape.groups * (shape.replies * shape.width + 1 + shape.replies)
        # sum, square and dot product: six operations an element
        flops = 6 * shape.groups * shape.replies * shape.width
        return Work(items=shape.groups, flops=flops, bytes=size, working_set_bytes=size, item="groups")
    if case == "encode":
        flops, size = _encode(shape.encoder, shape.texts, shape.tokens + 2)
        return Work(
            items=shape.texts,
            flops=flops,
            bytes=size,
            working_set_bytes=size,
            dtype=_dtype(shape.encoder),
            item="texts",
        )
    if "examples" not in shape:
        flops, size = _generate(shape, shape.prompts)
        return Work(
            items=shape.prompts * shape.replies * shape.tokens, flops=flops, bytes=size, working_set_bytes=_weights(shape.model),
            dtype=_dtype(shape.model), item="tokens",
        )  # fmt: skip
    flops, size = _learn(shape)
    return Work(
        items=shape.steps * shape.examples, flops=shape.steps * flops, bytes=shape.steps * size,
        working_set_bytes=_weights(shape.model), dtype=_dtype(shape.model), item="examples",
    )  # fmt: skip


def _dtype(name: str) -> str:
    return "float32" if name == "tiny" else "bfloat16"


def _parameters(name: str) -> int:
    model = SHAPES[name]
    return model.layers * model.layer_parameters + model.vocabulary * model.width


def _weights(name: str) -> float:
    return ELEMENT * _parameters(name)


def _generate(shape: Shape, prompts: int) -> tuple[float, float]:
    """One prefill, then one pass over the weights for each further token; a key and a value a position, layer and key head."""
    model, rows = SHAPES[shape.model], prompts * shape.replies
    # on average a prompt has three quarters of its room, and a reply half of its tokens
    seen = 0.75 * shape.prompt * prompts + 0.5 * shape.tokens * rows
    cache = 2 * ELEMENT * model.layers * model.kv_size * seen * shape.tokens
    body = model.layers * model.layer_parameters
    flops = 2 * body * (0.75 * shape.prompt * prompts + rows * shape.tokens)
    flops += 2 * model.vocabulary * model.width * rows * shape.tokens
    return flops, shape.tokens * _weights(shape.model) + cache


def _encode(name: str, texts: int, length: int) -> tuple[float, float]:
    encoder = ENCODERS[name]
    body = encoder.layers * (4 * encoder.width**2 + 2 * encoder.width * encoder.inner)
    # texts have three quarters of their room on average
    return 2 * body * texts * 0.75 * length, ELEMENT * body


def _learn(shape: Shape) -> tuple[float, float]:
    """Forward, and backward to the activations alone since the weights are frozen: 4 operations a parameter and token."""
    tokens = shape.examples * shape.length
    size = 2.0 * _weights(shape.model) * (shape.examples // shape.micro)
    # gradients, parameters and two moments of the adapters in float32, read and written
    size += 8 * 4 * count_parameters(SHAPES[shape.model])
    flops = 0.0
    if shape.replies:
        generated, read = _generate(shape, shape.examples)
        encoded, encoder_bytes = _encode(shape.encoder, shape.examples * shape.replies, shape.tokens + 2)
        flops += generated + encoded
        size += read + encoder_bytes
        tokens += shape.examples * shape.replies * (0.75 * shape.prompt + shape.tokens)
    return flops + 4.0 * _parameters(shape.model) * tokens, size
