"""Pad linear and embedding layers to sizes that tensor cores take at full rate, without changing what they return.

cuBLAS wants sizes that are multiples of 16 bytes, 8 elements of a half-precision type (NVIDIA, "Matrix Multiplication
Background User's Guide", section 4.1). Padding is zeros: padded inputs and rows add nothing, and get no gradient.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional

MULTIPLE = 8


@dataclass(frozen=True)
class Misaligned:
    """A layer with a size that is not a multiple; `reason` says why `pad` leaves it alone, "" if it does not."""

    name: str
    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    reason: str = ""


class PaddedLinear(torch.nn.Module):
    """`linear` on padded sizes: [..., in] -> [..., out], a view of the padded result. `weight` and `bias` are unpadded."""

    def __init__(self, linear: torch.nn.Linear, multiple: int = MULTIPLE) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        extra_in, extra_out = -self.in_features % multiple, -self.out_features % multiple
        self.extra_in = extra_in
        self.padded_weight = _padded(linear.weight, (0, extra_in, 0, extra_out))
        self.padded_bias = None if linear.bias is None else _padded(linear.bias, (0, extra_out))

    @property
    def weight(self) -> torch.Tensor:
        return self.padded_weight[: self.out_features, : self.in_features]

    @property
    def bias(self) -> torch.Tensor | None:
        return None if self.padded_bias is None else self.padded_bias[: self.out_features]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same as the layer it was made from."""
        wide = functional.pad(x, (0, self.extra_in)) if self.extra_in else x
        return functional.linear(wide, self.padded_weight, self.padded_bias)[..., : self.out_features]


class PaddedEmbedding(torch.nn.Module):
    """`embedding` on padded sizes: [...] -> [..., dim], a view of the padded rows. `weight` is unpadded."""

    def __init__(self, embedding: torch.nn.Embedding, multiple: int = MULTIPLE) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        self.padding_idx = embedding.padding_idx
        extra = (0, -self.embedding_dim % multiple, 0, -self.num_embeddings % multiple)
        self.padded_weight = _padded(embedding.weight, extra)

    @property
    def weight(self) -> torch.Tensor:
        return self.padded_weight[: self.num_embeddings, : self.embedding_dim]

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """The same as the layer it was made from; an index into the padding is not refused."""
        return functional.embedding(index, self.padded_weight, self.padding_idx)[..., : self.embedding_dim]


class PaddedClasses(torch.nn.Module):
    """A head over classes on padded sizes: [..., in] -> [..., padded out], the classes that do not exist at minus infinity.

    Nothing is cut off, so the result stays contiguous, and softmax, cross-entropy, argmax and top-k are the same: a class at
    minus infinity has probability 0 and gives no gradient. `weight` and `bias` are unpadded.
    """

    padded_bias: torch.nn.Parameter | None
    # 0 and minus infinity, where the head itself has no bias
    floor: torch.Tensor

    def __init__(self, linear: torch.nn.Linear, multiple: int = MULTIPLE) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.extra_in, extra_out = -self.in_features % multiple, -self.out_features % multiple
        self.padded_weight = _padded(linear.weight, (0, self.extra_in, 0, extra_out))
        floor = torch.zeros_like(linear.weight[:, 0]) if linear.bias is None else linear.bias
        padded = functional.pad(floor.detach(), (0, extra_out), value=-torch.inf)
        if linear.bias is None:
            self.register_buffer("floor", padded, persistent=False)
            self.padded_bias = None
        else:
            self.padded_bias = torch.nn.Parameter(padded, requires_grad=linear.bias.requires_grad)

    @property
    def weight(self) -> torch.Tensor:
        return self.padded_weight[: self.out_features, : self.in_features]

    @property
    def bias(self) -> torch.Tensor | None:
        return None if self.padded_bias is None else self.padded_bias[: self.out_features]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of all classes, and minus infinity beyond the last."""
        wide = functional.pad(x, (0, self.extra_in)) if self.extra_in else x
        return functional.linear(wide, self.padded_weight, self.floor if self.padded_bias is None else self.padded_bias)


def find_misaligned(module: torch.nn.Module, multiple: int = MULTIPLE) -> tuple[Misaligned, ...]:
    """Every linear and embedding layer below `module`, in order, with a size that is not a multiple of `multiple`."""
    found = []
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.Embedding):
            sizes = tuple(layer.weight.shape)
            padded = tuple(size + -size % multiple for size in sizes)
            if sizes != padded:
                found.append(Misaligned(name, sizes, padded, _reason(module, layer)))
    return tuple(found)


def pad(module: torch.nn.Module, multiple: int = MULTIPLE) -> torch.nn.Module:
    """A copy of `module` in which misaligned layers are padded; the layers that `find_misaligned` gives a reason for stay."""
    wide = copy.deepcopy(module)
    for item in find_misaligned(wide, multiple):
        if item.reason:
            continue
        layer = wide.get_submodule(item.name)
        padded = _pad_layer(layer, multiple)
        padded.train(layer.training)
        if item.name == "":
            return padded
        wide.set_submodule(item.name, padded)
    return wide


def unpadded_state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """State of a padded module under the names and in the shapes of the module it was made from."""
    return dict(_canonical(module))


def _canonical(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in module.state_dict().items():
        owner, _, leaf = name.rpartition(".")
        if leaf in ("padded_weight", "padded_bias"):
            plain = leaf.removeprefix("padded_")
            yield f"{owner}.{plain}" if owner else plain, getattr(module.get_submodule(owner), plain).detach()
        else:
            yield name, tensor


def _pad_layer(layer: torch.nn.Module, multiple: int) -> torch.nn.Module:
    if isinstance(layer, torch.nn.Embedding):
        return PaddedEmbedding(layer, multiple)
    assert isinstance(layer, torch.nn.Linear), "find_misaligned names no other kind"
    return PaddedLinear(layer, multiple)


def _reason(module: torch.nn.Module, layer: torch.nn.Linear | torch.nn.Embedding) -> str:
    """Why `layer` can't be replaced."""
    if type(layer) not in (torch.nn.Linear, torch.nn.Embedding):
        return f"a {type(layer).__name__} may be used in other ways than by calling it"
    if isinstance(layer, torch.nn.Embedding) and (
        layer.max_norm is not None or layer.sparse or layer.scale_grad_by_freq
    ):
        return "max_norm, sparse and scale_grad_by_freq are not kept"
    if sum(other is layer for _, other in module.named_modules(remove_duplicate=False)) > 1:
        return "it is used under two names"
    owners = [
        other for other in module.modules() if other is not layer and layer.weight is getattr(other, "weight", None)
    ]
    return f"its weight is shared with another layer ({type(owners[0]).__name__})" if owners else ""


def _padded(tensor: torch.Tensor, extra: tuple[int, ...]) -> torch.nn.Parameter:
    return torch.nn.Parameter(functional.pad(tensor.detach(), extra), requires_grad=tensor.requires_grad)
