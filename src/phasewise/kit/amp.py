"""One training step in mixed precision: autocast, and for float16 a gradient scaler whose overflows are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch


class Optimizer(Protocol):
    """What a training loop needs of an optimizer, torch's or another."""

    def step(self) -> Any: ...

    def zero_grad(self, set_to_none: bool = True) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class AmpStep:
    """Forward in `dtype`, backward, clip, update.

    bfloat16 has the range of float32 and is not scaled. With float16 a step whose gradients overflow is skipped and
    counted in `overflows`; to see that, one scalar is read back from the device, as GradScaler itself does.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer | Optimizer,
        *,
        device: str | torch.device,
        dtype: torch.dtype = torch.float16,
        max_norm: float | None = None,
        parameters: Iterable[torch.nn.Parameter] | None = None,
        first_scale: float = 2.0**16,
        growth_interval: int = 2000,
    ) -> None:
        # one that keeps its state on the CPU has the same methods but is none of torch's
        self.optimizer: Any = optimizer
        self.device = torch.device(device).type
        self.dtype = dtype
        # gradients longer than this are shortened to it, after unscaling
        self.max_norm = max_norm
        # what is shortened; an optimizer that holds copies on the CPU does not name them itself
        self.parameters = None if parameters is None else tuple(parameters)
        # length of the last step's gradients before that
        self.norm: torch.Tensor | None = None
        self.scaler = torch.amp.GradScaler(
            self.device, init_scale=first_scale, growth_interval=growth_interval, enabled=dtype is torch.float16
        )
        self.overflows = 0

    def __call__(self, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
        """One update from the scalar that `loss()` returns; gives it back detached, unscaled."""
        self.optimizer.zero_grad(set_to_none=True)
        value = self.backward(loss)
        self.update()
        return value

    def backward(self, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Add the scaled gradients of `loss()`; for accumulation, followed by one `update`."""
        with self.autocast():
            value = loss()
        self.scale_backward(value)
        return value.detach()

    def autocast(self) -> torch.autocast:
        """The context for a forward pass that this class does not call itself."""
        return torch.autocast(self.device, self.dtype, enabled=self.dtype is not torch.float32)

    def scale_backward(self, value: torch.Tensor) -> None:
        """Add the scaled gradients of `value`: what `kit.accumulate.accumulate` takes as its `backward`."""
        self.scaler.scale(value).backward()

    def update(self) -> bool:
        """Step the optimizer with the gradients at hand; False if they overflowed and the step was skipped."""
        if self.max_norm is not None:
            self.scaler.unscale_(self.optimizer)
            self.norm = torch.nn.utils.clip_grad_norm_(self._clipped(), self.max_norm)
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        # the scale only ever falls after an overflow
        overflowed = self.scaler.get_scale() < before
        self.overflows += overflowed
        return not overflowed

    def _clipped(self) -> list[torch.nn.Parameter]:
        if self.parameters is not None:
            return list(self.parameters)
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Scale, steps since it last changed, and overflows, as 0-d tensors that a program's `state()` may hold."""
        state = self.scaler.state_dict()
        return {
            "scale": torch.tensor(state.get("scale", 1.0), dtype=torch.float64),
            "growth_tracker": torch.tensor(state.get("_growth_tracker", 0)),
            "overflows": torch.tensor(self.overflows),
        }

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """What `state_dict` gave; KeyError if a name is missing."""
        self.overflows = int(state["overflows"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(
                {
                    **self.scaler.state_dict(),
                    "scale": float(state["scale"]),
                    "_growth_tracker": int(state["growth_tracker"]),
                }
            )
