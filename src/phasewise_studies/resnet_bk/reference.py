"""The language model and its training step in float64, equation by equation: no module, no optimizer, no kernel.
`reference` is the program that a variant is compared with.

Names of parameters are those of `model.draw_parameters`. Slow; kept because there is nothing in it to get wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from phasewise import Program, Shape
from phasewise_studies.bk_core.reference import diagonal_causal, diagonal_ratio
from phasewise_studies.resnet_bk.phases import INFERENCE

Named = Mapping[str, Tensor]
EXPERTS, DROPOUT = 4, 0.1
LEARNING_RATE, CLIP, DECAY, BETAS, EPSILON = 1e-3, 0.5, 0.01, (0.9, 0.999), 1e-8
# logits of one chunk of tokens: memory is capped in some cases
CHUNK_LOGITS = 1 << 23


def run_body(p: Named, tokens: Tensor, keep: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    """Normed last layer (batch, length, width), and the features of each layer (layers, batch, length, 2)."""
    x = p["tokens.weight"][tokens] + p["positions.weight"][: tokens.shape[1]]
    features = []
    layers = sum(name.endswith("router.weight") for name in p)
    for layer in range(layers):
        own = {name.removeprefix(f"blocks.{layer}."): t for name, t in p.items() if name.startswith(f"blocks.{layer}.")}
        f = run_experts(
            own, normalize(x, own["norm.weight"], own["norm.bias"]), None if keep is None else keep[:, layer]
        )
        v = (f @ own["potential.weight"].t() + own["potential.bias"]).squeeze(-1).clamp(-3, 3)
        ones = torch.ones_like(v[0, 1:])
        g = torch.view_as_real((diagonal_causal if causal else diagonal_ratio)(-2 + v, ones, ones, 1j))
        x = x + f + own["scale"] * (g.clamp(-10, 10) @ own["mix.weight"].t() + own["mix.bias"])
        features.append(g)
    return normalize(x, p["norm.weight"], p["norm.bias"]), torch.stack(features)


def run_experts(own: Named, x: Tensor, keep: Tensor | None) -> Tensor:
    """Each token through the expert of its largest score: relu(x W1 + b1), dropout, W2 + b2."""
    hidden = own["w1"].shape[0] // EXPERTS
    best = (x @ own["router.weight"].t() + own["router.bias"]).argmax(-1)
    out = torch.zeros_like(x)
    for expert in range(EXPERTS):
        units = slice(expert * hidden, (expert + 1) * hidden)
        inner = (x @ own["w1"][units].t() + own["b1"][units]).relu()
        if keep is not None:
            inner = inner * keep / (1 - DROPOUT)
        out = torch.where((best == expert)[..., None], inner @ own["w2"][:, units].t() + own["b2"][expert], out)
    return out


def normalize(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm with epsilon 1e-5."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def mean_loss(p: Named, tokens: Tensor, targets: Tensor, keep: Tensor | None, causal: bool) -> Tensor:
    """Mean cross-entropy in nats; the logits of a chunk of tokens are computed again in the backward pass."""
    x = run_body(p, tokens, keep, causal)[0].flatten(0, 1)
    weight, bias = p["head.weight"], p["head.bias"]
    rows = max(1, CHUNK_LOGITS // len(bias))

    def chunk(part: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(part @ weight.t() + bias, wanted, reduction="sum")

    parts = zip(x.split(rows), targets.flatten().split(rows), strict=True)
    return sum(checkpoint(chunk, *part, use_reentrant=False) for part in parts) / len(x)


def train_step(
    p: dict[str, Tensor], moments: dict[str, Tensor], squares: dict[str, Tensor], count: int, batch: Named, causal: bool
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """One clipped AdamW step in place, the `count`-th; returns loss and gradient norm, and the clipped gradients.

    g <- g min(1, clip / |g|);  m <- b1 m + (1 - b1) g;  s <- b2 s + (1 - b2) g^2
    w <- w (1 - lr decay) - lr m / (1 - b1^t) / (sqrt(s / (1 - b2^t)) + eps)
    """
    trained = {name: tensor.requires_grad_() for name, tensor in p.items() if ".router." not in name}
    loss = mean_loss(p, batch["tokens"], batch["targets"], batch["keep"], causal)
    found = torch.autograd.grad(loss, list(trained.values()))
    norm = torch.stack([gradient.square().sum() for gradient in found]).sum().sqrt()
    # the small number is torch's, in clip_grad_norm_
    factor = (CLIP / (norm + 1e-6)).clamp(max=1.0)
    gradients = {name: gradient * factor for name, gradient in zip(trained, found, strict=True)}
    with torch.no_grad():
        for name, gradient in gradients.items():
            moments[name].lerp_(gradient, 1 - BETAS[0])
            squares[name].mul_(BETAS[1]).add_((1 - BETAS[1]) * gradient.square())
            mean, square = moments[name] / (1 - BETAS[0] ** count), squares[name] / (1 - BETAS[1] ** count)
            trained[name].mul_(1 - LEARNING_RATE * DECAY).sub_(LEARNING_RATE * mean / (square.sqrt() + EPSILON))
            trained[name].requires_grad_(False)
    return {"loss": loss.detach(), "grad_norm": norm}, gradients


def parameters_in(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters among canonical inputs: the names with a dot."""
    return {name: tensor for name, tensor in inputs.items() if "." in name}


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
        found, clipped = train_step(held, moments, squares, int(count), batch, causal)
        gradients.update(clipped)
        return found

    def state() -> dict[str, Tensor]:
        # not the parameters: where a gradient is rounding noise AdamW still moves them by lr, in the noise's direction. They are
        # held by the losses of the steps that follow, and by the check parameters-follow
        parts = {"moment": moments, "square": squares, "grad": gradients}
        return {f"{kind}/{name}": tensor for kind, tensors in parts.items() for name, tensor in tensors.items()}

    return Program(step=step, place=place, state=state)


def _infer_plainly(batch: Mapping[str, Tensor], case: str) -> dict[str, Tensor]:
    parameters = parameters_in(batch)
    with torch.no_grad():
        x, features = run_body(parameters, batch["tokens"], None, causal=True)
        if case == "decode":
            x = x[:, -1]
        logits = x @ parameters["head.weight"].t() + parameters["head.bias"]
    return {"logits": logits, "features": features[:, :, -1]} if case == "decode" else {"logits": logits}
