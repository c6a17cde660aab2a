"""The same skeleton with another mixer: layers of flash-linear-attention where the language model has its tridiagonal inverse.

Embeddings, experts, residuals, norms, head, loss, optimizer and the CUDA graph are those of the end of our stack, so that the times differ by
the mixer alone. What is learnt is another function, so no result is compared. Both layers look back only: they stand beside `causal`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from phasewise import Program, Shape
from phasewise.kit.amp import AmpStep
from phasewise.kit.graphs import capture
from phasewise.kit.ranks import Rank
from phasewise_studies.resnet_bk.experts import route
from phasewise_studies.resnet_bk.model import Block, choose_ways, make_model
from phasewise_studies.resnet_bk.program import sizes_of
from phasewise_studies.resnet_bk.reference import parameters_in
from phasewise_studies.resnet_bk.switches import Switches
from phasewise_studies.resnet_bk.train import CLIP, LEARNING_RATE, place_rows

Batch = Mapping[str, Tensor]
# of 64 channels; a head of gated linear attention then has 16 keys, the fewest that a product on tensor cores takes
HEADS = 2
OURS = Switches(experts="wide", precision="bfloat16", fused_update=True)


def gated_deltanet(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """A training step with fla's GatedDeltaNet, keys and values as wide as the model."""
    from fla.layers import GatedDeltaNet

    width = shape.width
    return train_with(
        lambda: GatedDeltaNet(hidden_size=width, head_dim=width // HEADS, num_heads=HEADS, expand_v=1),
        inputs, shape, device,
    )  # fmt: skip


def gated_linear_attention(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """A training step with fla's GatedLinearAttention as it comes: keys half as wide as values."""
    from fla.layers import GatedLinearAttention

    return train_with(lambda: GatedLinearAttention(hidden_size=shape.width, num_heads=HEADS), inputs, shape, device)


class Mixed(nn.Module):
    """f = experts(norm x), then x + f + s mixer(f): our layer with `mixer` in place of potential, inverse and their mix."""

    def __init__(self, block: Block, mixer: nn.Module) -> None:
        super().__init__()
        del block.potential, block.mix
        self.block, self.mixer = block, mixer

    def forward(self, x: Tensor, keep: Tensor | None) -> tuple[Tensor, None]:
        """x (batch, length, width) -> the same; the features of our layer are missing."""
        block = self.block
        flat = block.norm(x).flatten(0, 1)
        kept = None if keep is None else keep.flatten(0, 1)
        choice = route(flat, block.router.weight, block.router.bias)
        inner = block.experts(flat, choice, kept, block.w1, block.b1, block.w2, block.b2).view(x.shape)
        return x + inner + block.scale * self.mixer(inner)[0], None


def train_with(make_mixer: Callable[[], nn.Module], inputs: Batch, shape: Shape, device: torch.device) -> Program:
    """The training step of the end of our stack with these mixers, each of which gives a tuple whose first is (batch, length, width)."""
    model = make_model(sizes_of(shape), choose_ways(OURS), parameters_in(inputs), device)
    # the library's layers draw their own weights
    torch.manual_seed(0)
    for index, block in enumerate(model.blocks):
        model.blocks[index] = Mixed(block, make_mixer().to(device))
    on_gpu = device.type == "cuda"
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE, fused=True, capturable=on_gpu)
    amp = AmpStep(optimizer, device=device, dtype=torch.bfloat16, max_norm=CLIP, parameters=trained)

    def step(batch: Batch) -> dict[str, Tensor]:
        loss = amp(lambda: model(batch["tokens"], batch["targets"], batch["keep"]))
        assert amp.norm is not None, "gradients are clipped"
        return {"loss": loss, "grad_norm": amp.norm}

    captured = capture(step, place_rows(inputs, Rank(), device))
    return Program(
        step=captured.call,
        place=lambda batch: place_rows(batch, Rank(), device),
        fallbacks=(f"cuda-graph: {captured.reason}",) if captured.reason else (),
        facts={"autocast": OURS.precision},
    )
