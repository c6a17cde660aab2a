"""The device that a user names."""

from __future__ import annotations

import torch

from phasewise.records.errors import UserError


def choose_device(name: str | torch.device = "") -> torch.device:
    """The named device; by default the GPU where there is one, else the CPU.

    Raises:
        UserError: it is neither the CPU nor an NVIDIA GPU that is here.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    text = str(name) or ("cuda" if count else "cpu")
    try:
        device = torch.device(text)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UserError(f"device: {text!r} is none; cpu, cuda and cuda:<number> are allowed")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise UserError(
            f"device: {text!r} was asked for and torch finds {count} NVIDIA GPUs here; cpu is always allowed"
        )
    return device
