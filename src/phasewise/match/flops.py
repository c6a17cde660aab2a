"""Floating-point operations of a call, as torch's own formulas count them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class FlopWatch(TorchDispatchMode):
    """What products and convolutions under it amount to. torch's FlopCounterMode says the same, and imports the compiler for it."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0.0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under it; torch would import its compiler to say so."""
        return False

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **(kwargs or {}), out_val=found)
        return found
