"""Time a call as the GPU sees it, to choose between launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from phasewise.kit.graphs import record

# before the capture: what compiles at its first call has compiled
WARMUP = 3


def make_timer(call: Callable[[], Any], *, calls: int = 10) -> Callable[[], float]:
    """Warm `call` up; the function returned runs it `calls` times and returns seconds a call, on the current GPU.

    The calls are one CUDA graph. Launched one by one, a kernel of 40 us beside a host that takes 57 us a launch would only
    show what the host takes, the same for every candidate.

    Raises:
        RuntimeError: `call` can't be captured, such as one that waits for the device.
    """
    for _ in range(WARMUP):
        call()
    torch.cuda.synchronize()

    def repeat(count: int) -> None:
        for _ in range(count):
            call()

    graph, _ = record(repeat, calls, torch.device("cuda", torch.cuda.current_device()))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def time() -> float:
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        # milliseconds
        return float(begin.elapsed_time(end)) * 1e-3 / calls

    time()
    return time
