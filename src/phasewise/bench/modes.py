"""Modes of torch that a program has left on: through them its code sees, and may answer, whatever the bench asks of torch."""

from __future__ import annotations

from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def find_left_on() -> str:
    """A clause on the first of them; "" where there is none but the one of `torch.set_default_device`."""
    modes = [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]
    left = next((mode for mode in modes if not isinstance(mode, DeviceContext)), None)
    return f"comes from a program that has left a mode of torch on, {type(left).__name__}" if left is not None else ""
