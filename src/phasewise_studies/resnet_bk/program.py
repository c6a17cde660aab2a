"""ResNet-BK as programs: inputs, the build of every variant and the declared work; its float64 reference is `reference.py`'s."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from phasewise import Program, Shape, Work
from phasewise.kit.kernels import has_kernel
from phasewise_studies.resnet_bk import data
from phasewise_studies.resnet_bk.experts import DROPOUT
from phasewise_studies.resnet_bk.model import Sizes, draw_parameters
from phasewise_studies.resnet_bk.phases import INFERENCE

# the harness looks for `reference` here
from phasewise_studies.resnet_bk.reference import reference, run_body  # noqa: F401
from phasewise_studies.resnet_bk.switches import Switches


def prepare(folder: Path) -> None:
    """The text as tokens of every vocabulary."""
    data.write_tokens(folder, data.read_text())


def make_inputs(case: str, shape: Shape, seed: int) -> dict[str, Tensor]:
    """Initial parameters (the same for every seed), and rows of text drawn with `seed`.

    tokens, targets (batch, length); keep (batch, layers, length, hidden) uint8, dropout's mask; to decode, the tokens and the
    features (layers, batch, 2) before the newest.
    """
    sizes = sizes_of(shape)
    # they take as long as all the rest, and are the same in every batch; each batch has memory of its own
    drawn = {name: tensor.clone() for name, tensor in _initial_parameters(sizes).items()}
    generator = torch.Generator().manual_seed(seed)
    tokens = data.load_tokens(shape.vocabulary)
    starts = torch.randint(0, len(tokens) - shape.length - 1, (shape.batch,), generator=generator)
    rows, following = (torch.from_numpy(part) for part in data.cut_windows(tokens, starts.numpy(), shape.length))
    if case == "decode":
        with torch.no_grad():
            _, features = run_body(drawn, rows[:, :-1], None, causal=True)
        return {**drawn, "tokens": rows, "features": features[:, :, -1].contiguous()}
    if case == "forward":
        return {**drawn, "tokens": rows}
    hidden = (shape.batch, shape.layers, shape.length, 2 * shape.width)
    keep = (torch.rand(hidden, generator=generator) >= DROPOUT).to(torch.uint8)
    return {**drawn, "tokens": rows, "targets": following, "keep": keep}


@functools.lru_cache(maxsize=2)
def _initial_parameters(sizes: Sizes) -> dict[str, Tensor]:
    return draw_parameters(sizes, torch.Generator().manual_seed(0))


def build(switches: Switches, inputs: Mapping[str, Tensor], case: str, shape: Shape, device: torch.device) -> Program:
    """One variant: a training step, or for the inference cases a forward pass."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    sizes, fallbacks = sizes_of(shape), find_fallbacks(switches, device)
    if case in INFERENCE:
        from phasewise_studies.resnet_bk.inference import build_inference

        return build_inference(switches, inputs, case, sizes, device, fallbacks)
    from phasewise_studies.resnet_bk.train import build_training

    return build_training(switches, inputs, sizes, device, fallbacks)


def work(case: str, shape: Shape) -> Work:
    """Products of the head and of one expert a token; parameters read, training's moments read and written, tokens read."""
    hidden, tokens = 2 * shape.width, shape.batch * shape.length
    body = 4 * shape.layers * shape.width * hidden
    parameters = (2 * shape.vocabulary + shape.length) * shape.width + shape.layers * 8 * shape.width * hidden
    if case in INFERENCE:
        positions = shape.batch if case == "decode" else tokens
        logits = positions * shape.vocabulary
        head_bytes = 4 * shape.vocabulary * shape.width + 4 * logits
        flops = positions * (body + 2 * shape.width * shape.vocabulary)
        return Work(
            items=positions, flops=flops, bytes=head_bytes, working_set_bytes=4 * parameters + 4 * logits, item="tokens"
        )
    # forward and twice as much backward
    flops = 3 * tokens * (body + 2 * shape.width * shape.vocabulary)
    # parameter, both moments and gradient: four read, three written
    size = 28 * parameters + tokens * (16 + shape.layers * hidden)
    return Work(
        items=tokens, flops=flops, bytes=size, working_set_bytes=16 * parameters, dtype="bfloat16", item="tokens"
    )


def sizes_of(shape: Shape) -> Sizes:
    """The model's sizes in a shape."""
    return Sizes(shape.vocabulary, shape.width, shape.layers, shape.length, bool(shape.causal))


def find_fallbacks(switches: Switches, device: torch.device) -> tuple[str, ...]:
    """What of these switches has no kernel on `device`, one sentence each."""
    found = []
    if switches.core == "fused" and not has_kernel(device):
        found.append("fused-core: no NVIDIA GPU, the plain recursion ran instead")
    if switches.fused_update and switches.precision != "float32":
        from phasewise_studies.resnet_bk.kernels.linear_cross_entropy import takes_width_and_dtype

        if not takes_width_and_dtype(torch.empty((1, 64), device=device), getattr(torch, switches.precision)):
            found.append("fused-update: no NVIDIA GPU that has this precision, the plain loss ran instead")
    return tuple(found)
