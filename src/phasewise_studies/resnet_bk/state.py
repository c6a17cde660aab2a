"""The state of training under canonical names and in canonical shapes: parameters, moments, gradients, scaler.

`load` writes into the tensors that are there, so a captured graph goes on from the loaded state. Padding is no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phasewise.kit.amp import AmpStep
from phasewise_studies.resnet_bk.offload import CpuOptimizer


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """Where the named tensors of one training program live."""

    # trained parameters by canonical name
    parameters: Mapping[str, nn.Parameter]
    # routers
    frozen: Mapping[str, nn.Parameter]
    # canonical shapes, without padding
    shapes: Mapping[str, torch.Size]
    optimizer: torch.optim.Optimizer | CpuOptimizer
    amp: AmpStep

    def read(self) -> dict[str, Tensor]:
        """Views of everything, cut to the canonical shapes."""
        found: dict[str, Tensor] = {name: tensor.detach() for name, tensor in self.frozen.items()}
        for name, parameter in self.parameters.items():
            held, shape = self._moments(name), self.shapes[name]
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            found[name] = cut(parameter.detach(), shape)
            found[f"moment/{name}"] = cut(held["exp_avg"], shape)
            found[f"square/{name}"] = cut(held["exp_avg_sq"], shape)
            found[f"steps/{name}"] = held["step"]
            found[f"grad/{name}"] = cut(gradient, shape)
        if self.amp.scaler.is_enabled():
            found |= {f"scaler/{name}": tensor for name, tensor in self.amp.state_dict().items()}
        return found

    @torch.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """What `read` gave; a name that is missing is a KeyError."""
        for name, parameter in self.frozen.items():
            parameter.copy_(tensors[name])
        for name, parameter in self.parameters.items():
            held, shape = self._moments(name), self.shapes[name]
            cut(parameter, shape).copy_(tensors[name])
            cut(held["exp_avg"], shape).copy_(tensors[f"moment/{name}"])
            cut(held["exp_avg_sq"], shape).copy_(tensors[f"square/{name}"])
            held["step"].copy_(tensors[f"steps/{name}"])
            if parameter.grad is not None and f"grad/{name}" in tensors:
                cut(parameter.grad, shape).copy_(tensors[f"grad/{name}"])
        if isinstance(self.optimizer, CpuOptimizer):
            for parameter, master in zip(self.optimizer.parameters, self.optimizer.masters, strict=True):
                master.copy_(parameter)
        if self.amp.scaler.is_enabled():
            self.amp.load_state_dict(
                {name: tensors[f"scaler/{name}"] for name in ("scale", "growth_tracker", "overflows")}
            )

    def _moments(self, name: str) -> dict[str, Tensor]:
        if isinstance(self.optimizer, CpuOptimizer):
            index = next(i for i, own in enumerate(self.optimizer.parameters) if own is self.parameters[name])
            return self.optimizer.inner.state[self.optimizer.masters[index]]
        return self.optimizer.state[self.parameters[name]]


def gather_state(model: nn.Module, optimizer: torch.optim.Optimizer | CpuOptimizer, amp: AmpStep) -> TrainingState:
    """The state of `model`; the optimizer's moments, which torch makes at the first step, are made now."""
    named = dict(model.named_parameters())
    canonical = {name.replace("padded_", ""): parameter for name, parameter in named.items()}
    shapes = {name.replace("padded_", ""): _canonical_shape(model, name) for name in named}
    inner, held = (optimizer.inner, optimizer.masters) if isinstance(optimizer, CpuOptimizer) else (optimizer, None)
    for tensor in held or [parameter for parameter in named.values() if parameter.requires_grad]:
        on_device = inner.param_groups[0].get("capturable") or inner.param_groups[0].get("fused")
        inner.state[tensor] = {
            "step": torch.zeros((), dtype=torch.float32, device=tensor.device if on_device else "cpu"),
            "exp_avg": torch.zeros_like(tensor, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(tensor, requires_grad=False),
        }
    return TrainingState(
        parameters={name: parameter for name, parameter in canonical.items() if parameter.requires_grad},
        frozen={name: parameter for name, parameter in canonical.items() if not parameter.requires_grad},
        shapes=shapes,
        optimizer=optimizer,
        amp=amp,
    )


def cut(tensor: Tensor, shape: torch.Size) -> Tensor:
    """The first entries of each axis: a view without the padding."""
    return tensor[tuple(slice(size) for size in shape)]


def _canonical_shape(model: nn.Module, name: str) -> torch.Size:
    owner, _, leaf = name.rpartition(".")
    return getattr(model.get_submodule(owner), leaf.removeprefix("padded_")).shape
