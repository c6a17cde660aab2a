"""Modes and replaced functions that a program may not leave behind in torch: they would see, and answer, what the bench does with results.

Functions are taken when this module is imported, before any user code.
"""

from __future__ import annotations

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

# what new contents and results go through on their way
METHODS = (
    "clone",
    "contiguous",
    "copy_",
    "detach",
    "element_size",
    "numel",
    "numpy",
    "reshape",
    "resolve_conj",
    "resolve_neg",
    "to",
    "view",
)
FUNCTIONS = ("empty", "inference_mode")


def _read_torch() -> dict[str, object]:
    methods = {f"torch.Tensor.{name}": getattr(torch.Tensor, name) for name in METHODS}
    return {**methods, **{f"torch.{name}": getattr(torch, name) for name in FUNCTIONS}}


AS_FOUND = _read_torch()


def find_tampering() -> str:
    """A clause on a mode that was left on, other than that of `torch.set_default_device`, or on a function that was replaced; "" if neither."""
    modes = [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]
    left = next((type(mode).__name__ for mode in modes if not isinstance(mode, DeviceContext)), "")
    if left:
        return f"comes from a program that has left a mode of torch on, {left}; leave it before the step returns"
    now = _read_torch()
    replaced = next((name for name, found in AS_FOUND.items() if now[name] is not found), "")
    return f"comes from a program that has replaced {replaced}; leave it alone" if replaced else ""
