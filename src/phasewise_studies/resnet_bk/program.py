"""ResNet-BK as programs: inputs, the build of every variant, the reference and the declared work."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape, Work
from phasewise.kit.graphs import capture
from phasewise.kit.ranks import Rank, find_rank
from phasewise_studies.resnet_bk import data, kernels
from phasewise_studies.resnet_bk import reference as plain
from phasewise_studies.resnet_bk.core import has_kernel
from phasewise_studies.resnet_bk.decode import Forward, Prefix, Streaming
from phasewise_studies.resnet_bk.experts import DROPOUT
from phasewise_studies.resnet_bk.model import Sizes, Ways, draw_parameters, make_model
from phasewise_studies.resnet_bk.phases import Switches
from phasewise_studies.resnet_bk.train import PRECISIONS, make_training, place_rows

INFERENCE = ("forward", "decode")


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
            _, features = plain.run_body(drawn, rows[:, :-1], None, causal=True)
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
    sizes = sizes_of(shape)
    fallbacks = _find_fallbacks(switches, device)
    if case in INFERENCE:
        return _build_inference(switches, inputs, case, sizes, device, fallbacks)
    rank = find_rank() if switches.ranks > 1 else Rank()
    example = place_rows(inputs, rank, device)
    training = make_training(switches, parameters_in(inputs), example, sizes, device)
    return Program(
        step=training.step,
        place=lambda batch: place_rows(batch, rank, device),
        load=training.state.load,
        state=training.state.read,
        fallbacks=(*fallbacks, *training.fallbacks),
        facts={} if switches.precision == "float32" else {"autocast": switches.precision},
    )


def reference(inputs: Mapping[str, Tensor], case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """The plain float64 model; on a GPU where there is one, since 3 TFLOP in float64 take a CPU a minute."""
    assert items is None, "no case samples its items"
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    causal = bool(shape.causal)

    def place(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: tensor.to(device) for name, tensor in batch.items()}

    if case in INFERENCE:
        return Program(step=lambda batch: _infer_plainly(batch, case), place=place)
    held = {name: tensor.to(device, copy=True) for name, tensor in parameters_in(inputs).items()}
    trained = [name for name in held if ".router." not in name]
    moments, squares, gradients = ({name: torch.zeros_like(held[name]) for name in trained} for _ in range(3))
    count = torch.zeros((), dtype=torch.float64)

    def step(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        count.add_(1)
        found, clipped = plain.train_step(held, moments, squares, int(count), batch, causal)
        gradients.update(clipped)
        return found

    def state() -> dict[str, Tensor]:
        # not the parameters: where a gradient is rounding noise AdamW still moves them by lr, in the noise's direction. They are
        # held by the losses of the steps that follow, and by the check parameters-follow
        parts = {"moment": moments, "square": squares, "grad": gradients}
        return {f"{kind}/{name}": tensor for kind, tensors in parts.items() for name, tensor in tensors.items()}

    return Program(step=step, place=place, state=state)


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


def parameters_in(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters among canonical inputs: the names with a dot."""
    return {name: tensor for name, tensor in inputs.items() if "." in name}


def _build_inference(
    switches: Switches,
    inputs: Mapping[str, Tensor],
    case: str,
    sizes: Sizes,
    device: torch.device,
    fallbacks: tuple[str, ...],
) -> Program:
    ways = Ways(fused_core=switches.core == "fused", wide_experts=switches.experts == "wide" or switches.streaming)
    model = make_model(sizes, ways, parameters_in(inputs), device).eval().requires_grad_(False)
    exported = make_model(sizes, Ways(wide_experts=True), parameters_in(inputs), device)
    module: torch.nn.Module
    if switches.streaming:
        module, written = Streaming(model), Streaming(exported)
    elif case == "decode":
        module, written = Prefix(model), Prefix(exported)
    else:
        module, written = Forward(model), Forward(exported, iterated=True)
    dtype = torch.get_default_dtype()

    def place(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if not switches.streaming:
            return {"tokens": batch["tokens"].to(device)}
        newest = batch["tokens"].shape[1] - 1
        return {
            "token": batch["tokens"][:, newest].contiguous().to(device),
            "position": torch.tensor([newest], device=device),
            "carried": batch["features"].to(device, dtype),
        }

    def step(placed: dict[str, Tensor]) -> Any:
        with torch.no_grad():
            return module(**placed)

    if switches.graph:
        captured = capture(step, place(inputs))
        step = captured.call
        fallbacks = (*fallbacks, f"cuda-graph: {captured.reason}") if captured.reason else fallbacks
    return Program(step=step, place=place, outputs=_name_logits, module=written, fallbacks=fallbacks)


def _name_logits(raw: Any) -> Mapping[str, Tensor]:
    return raw if isinstance(raw, Mapping) else {"logits": raw}


def _infer_plainly(batch: Mapping[str, Tensor], case: str) -> dict[str, Tensor]:
    parameters = parameters_in(batch)
    with torch.no_grad():
        x, features = plain.run_body(parameters, batch["tokens"], None, causal=True)
        if case == "decode":
            x = x[:, -1]
        logits = x @ parameters["head.weight"].t() + parameters["head.bias"]
    return {"logits": logits, "features": features[:, :, -1]} if case == "decode" else {"logits": logits}


def _find_fallbacks(switches: Switches, device: torch.device) -> tuple[str, ...]:
    found = []
    if switches.core == "fused" and not has_kernel(device):
        found.append("fused-core: no NVIDIA GPU, the plain recursion ran instead")
    is_half = switches.precision != "float32"
    if (
        switches.fused_update
        and is_half
        and not kernels.has_kernel(torch.empty((1, 64), device=device), PRECISIONS[switches.precision])
    ):
        found.append("fused-update: no NVIDIA GPU that has this precision, the plain loss ran instead")
    return tuple(found)
