"""The optimizer of the adapters: AdamW with clipped gradients, matrix by matrix or on the one flat tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise_studies.polychromic.model.lora import Lora

# of the document's configuration, as its specification quotes it
LEARNING_RATE, WEIGHT_DECAY, MAX_NORM = 2e-4, 0.01, 1.0


@dataclass(frozen=True, kw_only=True)
class Update:
    """One step of the optimizer, and its state as flat tensors in the order of `Lora.flat`."""

    step: Callable[[], None]
    state: Callable[[], dict[str, Tensor]]
    load: Callable[[Mapping[str, Tensor]], None]
    set_rate: Callable[[float], None]


def make_update(lora: Lora, *, flat: bool, rate: float = LEARNING_RATE) -> Update:
    """`flat`: one fused kernel over all parameters; else torch's loop over matrices, about ten kernels each."""
    if flat:
        whole = lora.flat.detach().requires_grad_()
        whole.grad = lora.gradient
        parameters = [whole]
    else:
        parameters = list(lora.leaves.values())
    # a fused step on the CPU needs no capture
    fused = {"fused": True} if flat else {"foreach": False}
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=WEIGHT_DECAY, **fused)

    def step() -> None:
        torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=False)
        optimizer.step()

    def state() -> dict[str, Tensor]:
        held = [optimizer.state.get(parameter, {}) for parameter in parameters]

        def gather(name: str) -> Tensor:
            return torch.cat(
                [one.get(name, torch.zeros_like(p)).flatten() for one, p in zip(held, parameters, strict=True)]
            )

        steps = held[0].get("step", torch.zeros(()))
        return {
            "lora": lora.flat.clone(),
            "moment": gather("exp_avg"),
            "square": gather("exp_avg_sq"),
            "steps": steps.detach().to("cpu", torch.float64),
            "grad/lora": lora.gradient.clone(),
        }

    def load(tensors: Mapping[str, Tensor]) -> None:
        lora.copy_from(tensors["lora"])
        at = 0
        for parameter in parameters:
            end = at + parameter.numel()
            held = optimizer.state[parameter]
            for name, key in (("moment", "exp_avg"), ("square", "exp_avg_sq")):
                part = tensors[name][at:end].view(parameter.shape).to(parameter.device, parameter.dtype)
                if key in held:
                    held[key].copy_(part)
                else:
                    held[key] = part.clone()
            # the fused kernel wants its count on the device
            where = parameter.device if flat else "cpu"
            held["step"] = tensors["steps"].to(where, torch.float32, copy=True)
            at = end

    def set_rate(value: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = value

    return Update(step=step, state=state, load=load, set_rate=set_rate)
