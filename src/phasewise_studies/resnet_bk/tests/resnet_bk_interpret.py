"""Run by test_resnet_bk_kernels.py in a process where Triton interprets: prints what each case gave, as JSON."""

from __future__ import annotations

import json

import torch

from phasewise_studies.resnet_bk.cross_entropy import loss_plain
from phasewise_studies.resnet_bk.kernels.linear_cross_entropy import Tiles, head_backward, head_forward, loss_fused

# tokens, classes, width, dtype (the interpreter has no products of bfloat16): odd tails, fewer classes than a tile, one token, the document's width
SHAPES = [
    (1, 7, 16, torch.float32), (33, 130, 16, torch.float32), (70, 515, 64, torch.float32), (130, 1031, 64, torch.float16),
    (64, 256, 32, torch.float16), (20, 77, 128, torch.float16),
]  # fmt: skip
SMALL = Tiles(32, 32, 4, 2)


def draw(tokens: int, classes: int, width: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """x, weight, bias and targets; some scores are far apart, which a running softmax has to survive."""
    generator = torch.Generator().manual_seed(tokens * classes)
    x, weight = (torch.randn(n, width, generator=generator).to(dtype) for n in (tokens, classes))
    bias = 5 * torch.randn(classes, generator=generator)
    targets = torch.randint(0, classes, (tokens,), generator=generator)
    # the last class is in the tail of the last tile
    targets[0] = classes - 1
    return [x, weight, bias, targets]


def relative(found: torch.Tensor, exact: torch.Tensor) -> float:
    """L2 error over L2 norm."""
    return float((found.double() - exact).norm() / exact.norm())


def measure(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, targets: torch.Tensor, splits: int
) -> dict[str, float]:
    """Errors of the loss and its three gradients against float64 autograd through the logits."""
    wide = [part.double().requires_grad_() for part in (x, weight, bias)]
    exact = torch.nn.functional.cross_entropy(wide[0] @ wide[1].t() + wide[2], targets)
    exact.backward()
    exact = exact.detach()
    losses, grad_x, lse = head_forward(x, weight, bias, targets, tiles=SMALL, splits=splits)
    share = torch.tensor(1 / len(x))
    grad_weight, grad_bias = head_backward(x, weight, bias, targets, lse, share, tiles=SMALL)
    return {
        "loss": abs(float(losses.double().mean() - exact)) / float(exact),
        "x": relative(grad_x * share, wide[0].grad),
        "weight": relative(grad_weight, wide[1].grad),
        "bias": relative(grad_bias, wide[2].grad),
    }


def measure_function(autocast: bool) -> dict[str, float]:
    """The autograd function through a layer, scaled as a gradient scaler would."""
    x, weight, bias, targets = draw(40, 300, 32, torch.float32)
    layer = torch.nn.Linear(32, 300)
    layer.load_state_dict({"weight": weight, "bias": bias})
    gradients = []
    for loss in (loss_fused, loss_plain):
        leaf = x.clone().requires_grad_()
        layer.zero_grad()
        with torch.autocast("cpu", torch.float16, enabled=autocast and loss is loss_fused):
            value = loss(leaf, layer, targets)
        (1024.0 * value).backward()
        gradients.append((value.detach(), leaf.grad, layer.weight.grad, layer.bias.grad))
    names = ("loss", "x", "weight", "bias")
    return {name: relative(found, exact.double()) for name, found, exact in zip(names, *gradients, strict=True)}


def main() -> None:
    """Measure all cases."""
    found = {}
    for tokens, classes, width, dtype in SHAPES:
        operands = draw(tokens, classes, width, dtype)
        for splits in (1, 3):
            name = f"{tokens}x{classes}x{width}-{str(dtype).removeprefix('torch.')}-{splits}"
            found[name] = measure(*operands, splits)
    found["function-float32"] = measure_function(autocast=False)
    found["function-float16"] = measure_function(autocast=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
