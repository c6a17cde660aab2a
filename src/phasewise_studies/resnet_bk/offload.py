"""Keep the optimizer's state in host memory: the GPU holds parameters and gradients only.

Adam keeps two numbers a parameter, and float32 masters of half-precision parameters a third; here all of them stay
on the CPU, which also makes the step. Each step moves the gradients down and the parameters up: worth it where memory
is short and the batch long.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from phasewise.kit.amp import Optimizer


class CpuOptimizer:
    """`make(masters)` builds any torch optimizer over float32 copies of `parameters` in host memory.

    The copies are pinned where the parameters are on a GPU. `step` waits for the gradients; a parameter without a
    gradient is left alone, as torch does.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        make: Callable[[list[torch.Tensor]], torch.optim.Optimizer],
    ) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.masters = [_host(parameter) for parameter in self.parameters]
        # pinned like the masters, which zeros_like is not: the copies then run side by side
        self._gradients = [
            _pinned_like(torch.zeros_like(master, requires_grad=False), master) for master in self.masters
        ]
        self.inner = make(list(self.masters))

    @torch.no_grad()
    def step(self) -> None:
        """Gradients down, one step on the CPU, parameters up."""
        for parameter, master, room in zip(self.parameters, self.masters, self._gradients, strict=True):
            master.grad = None
            if parameter.grad is not None:
                master.grad = room.copy_(parameter.grad, non_blocking=room.is_pinned())
        if any(parameter.is_cuda for parameter in self.parameters):
            torch.cuda.synchronize()
        self.inner.step()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            if master.grad is not None:
                parameter.copy_(master, non_blocking=master.is_pinned())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of the parameters themselves, or set them to 0."""
        for parameter in self.parameters:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """State of the inner optimizer, and the masters, which hold more digits than half-precision parameters."""
        return {"inner": self.inner.state_dict(), "masters": [master.detach().clone() for master in self.masters]}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What `state_dict` gave; the parameters follow the masters."""
        self.inner.load_state_dict(state["inner"])
        for parameter, master, saved in zip(self.parameters, self.masters, state["masters"], strict=True):
            master.copy_(saved)
            parameter.copy_(master)


def offload(
    parameters: Iterable[torch.nn.Parameter], kind: type[torch.optim.Optimizer], *, torchao: bool = True, **options: Any
) -> Optimizer:
    """An optimizer of `kind` with its state in host memory.

    torchao's, which overlaps the copies with the backward pass, where it is installed and the parameters are on a
    GPU; else `CpuOptimizer`. `torchao=False` always takes the latter.
    """
    kept = list(parameters)
    if torchao and kept and all(parameter.is_cuda for parameter in kept) and importlib.util.find_spec("torchao"):
        from torchao.optim import CPUOffloadOptimizer

        return CPUOffloadOptimizer(kept, kind, **options)
    return CpuOptimizer(kept, lambda masters: kind(masters, **options))


def _pinned_like(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return tensor.pin_memory() if other.is_pinned() else tensor


def _host(parameter: torch.nn.Parameter) -> torch.Tensor:
    # a parameter already in host memory and float32 is copied too: the optimizer must not see a half-made step
    copied = parameter.detach().to(device="cpu", dtype=torch.float32, copy=True)
    return (copied.pin_memory() if parameter.is_cuda else copied).requires_grad_(True)
