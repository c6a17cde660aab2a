"""Seconds that each component of a training step takes: the document's custom timing, for every line of the log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch


class Components:
    """Sums by name; each call waits for the device before and after, which is microseconds of a step."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._seconds: Counter[str] = Counter()

    def watch(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, whose time is added to `name`."""

        def timed(*given: Any) -> Any:
            self._wait()
            started = time.perf_counter()
            found = call(*given)
            self._wait()
            self._seconds[name] += time.perf_counter() - started
            return found

        return timed

    def take(self) -> dict[str, float]:
        """The sums since the last call."""
        found = dict(self._seconds)
        self._seconds.clear()
        return found

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
