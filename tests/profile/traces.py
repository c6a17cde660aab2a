"""A tiny builder of Chrome traces; all times in microseconds.

`make_trace(kernel("gemm", 10, 60, launched=5), sync(40, 61), steps=[(0, 70)])`: each argument is a group of events that belong
together; a launch and its kernel get a correlation number of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Group = list[dict[str, Any]]
HOST, DEVICE = 100, 0


def make_trace(*groups: Group, steps: Sequence[tuple[float, float]] = ((0, 100),)) -> dict[str, Any]:
    events: Group = [
        _complete("user_annotation", f"ProfilerStep#{index}", *span) for index, span in enumerate(steps, 1)
    ]
    for number, group in enumerate(groups, 1):
        for event in group:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver"):
                event["args"].setdefault("correlation", number)
            events.append(event)
    device = any(event.get("cat") == "kernel" for event in events)
    properties = [
        {"id": 0, "name": "Synthetic", "numSms": 100, "computeMajor": 9, "computeMinor": 0, "totalGlobalMem": 1 << 34}
    ]
    return {"schemaVersion": 1, "deviceProperties": properties if device else [], "traceEvents": events}


def kernel(
    name: str, start: float, end: float, *, launched: float | None = None, call: str = "cudaLaunchKernel", call_us: float = 4,
    stream: int = 7, thread: int = HOST, grid: Sequence[int] = (100, 1, 1), block: Sequence[int] = (256, 1, 1), **args: Any,
) -> Group:  # fmt: skip
    """A kernel, with its launch on the host where `launched` says when."""
    shape = {"grid": list(grid), "block": list(block), "registers per thread": 32, "shared memory": 0, "stream": stream,
             "device": 0, "est. achieved occupancy %": 50}  # fmt: skip
    group = [_complete("kernel", name, start, end, process=DEVICE, thread=stream, **shape, **args)]
    if launched is not None:
        group.append(_complete("cuda_runtime", call, launched, launched + call_us, thread=thread))
    return group


def copy(
    kind: str,
    start: float,
    end: float,
    *,
    size: int = 4096,
    launched: float | None = None,
    stream: int = 7,
    call_us: float = 4,
) -> Group:
    """A copy such as `HtoD (Pageable -> Device)`."""
    group = [
        _complete("gpu_memcpy", f"Memcpy {kind}", start, end, process=DEVICE, thread=stream, bytes=size, stream=stream)
    ]
    if launched is not None:
        group.append(_complete("cuda_runtime", "cudaMemcpyAsync", launched, launched + call_us))
    return group


def graph(start: float, end: float, *kernels: tuple[str, float, float]) -> Group:
    """One replay of a graph; without `kernels` the trace hides them."""
    group = [_complete("cuda_runtime", "cudaGraphLaunch", start, end)]
    for name, begin, finish in kernels:
        group += kernel(name, begin, finish)
    return group


def call(name: str, start: float, end: float) -> Group:
    return [_complete("cuda_runtime", name, start, end)]


def sync(start: float, end: float) -> Group:
    return call("cudaStreamSynchronize", start, end)


def operator(
    name: str, start: float, end: float, *, dims: Sequence[Sequence[int]] = (), dtype: str = "float", thread: int = HOST
) -> Group:
    shapes = {"Input Dims": [list(shape) for shape in dims], "Input type": [dtype] * len(dims)} if dims else {}
    return [_complete("cpu_op", name, start, end, thread=thread, **shapes)]


def region(name: str, start: float, end: float) -> Group:
    return [_complete("user_annotation", name, start, end)]


def memory(at: float, size: int, total: int, *, device: bool = False) -> Group:
    args = {
        "Bytes": size,
        "Total Allocated": total,
        "Total Reserved": 0,
        "Device Type": int(device),
        "Device Id": -1,
        "Addr": 1,
    }
    return [
        {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": HOST,
            "tid": HOST,
            "ts": at,
            "args": args,
        }
    ]


def _complete(
    category: str, name: str, start: float, end: float, *, process: int = HOST, thread: int = HOST, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": end - start, "args": args
    }  # fmt: skip
