"""Measure the ceilings of this machine; nothing here is read from a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from phasewise.records.machine import RATES, Peaks

# bytes of one copy: far over any last-level cache on a GPU, a few caches' worth on a CPU
COPY_BYTES = {"cuda": 4 << 30, "cpu": 256 << 20}
# side of the square product: large enough that a GPU of 132 multiprocessors is full
MATMUL_SIDE = {"cuda": 8192, "cpu": 1024}
REPEATS = 10
# one that is too low makes honest steps look impossible on a GPU; on a CPU it accuses nobody
PASSES = {"cuda": 3, "cpu": 1}
WARMUP = 3
# of a CUDA graph
NODES = 200


def measure_peaks(device: torch.device) -> Peaks:
    """Copy rate, matrix rates by dtype on random data and, on a GPU, the costs of a launch, a graph node and a sync."""
    return take_best([_measure_once(device) for _ in range(PASSES[device.type])])


def take_best(passes: Sequence[Peaks]) -> Peaks:
    """The highest of each rate and the least of each cost: a disturbed pass alone would make an honest step impossible."""
    rates = {name for one in passes for name in one.matmul_flops_per_s}
    return Peaks(
        copy_bytes_per_s=max(one.copy_bytes_per_s for one in passes),
        cached_copy_bytes_per_s=max(one.cached_copy_bytes_per_s or 0.0 for one in passes) or None,
        matmul_flops_per_s={
            name: max(one.matmul_flops_per_s.get(name, 0.0) for one in passes) for name in RATES if name in rates
        },
        launch_s=_least([one.launch_s for one in passes]),
        graph_node_s=_least([one.graph_node_s for one in passes]),
        sync_s=_least([one.sync_s for one in passes]),
    )


def _least(costs: Sequence[float | None]) -> float | None:
    return min((cost for cost in costs if cost is not None), default=None)


def _measure_once(device: torch.device) -> Peaks:
    return Peaks(
        copy_bytes_per_s=_copy_rate(COPY_BYTES[device.type], device),
        cached_copy_bytes_per_s=_copy_rate(_cached_bytes(device), device, captured=device.type == "cuda"),
        matmul_flops_per_s=_matmul_rates(device),
        launch_s=_launch_cost(device) if device.type == "cuda" else None,
        graph_node_s=_graph_node_cost(device) if device.type == "cuda" else None,
        sync_s=_sync_cost(device),
    )


def cache_bytes(device: torch.device) -> int:
    """Size of the last-level cache, where torch knows it."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def _cached_bytes(device: torch.device) -> int:
    """Bytes whose source and destination together fill a third of the cache."""
    return max((cache_bytes(device) or (6 << 20)) // 6, 1 << 20)


def _copy_rate(size: int, device: torch.device, *, captured: bool = False) -> float:
    """Bytes a second; `captured` for a copy that takes less time than its launch."""
    source = torch.rand(size // 4, device=device)
    into = torch.empty_like(source)
    copy = partial(into.copy_, source)
    seconds = _time_captured(copy, device) if captured else _time(copy, device, inner=max(1, (32 << 20) // size))
    # read and written
    return 2 * source.numel() * 4 / seconds


def _matmul_rates(device: torch.device) -> dict[str, float]:
    side = MATMUL_SIDE[device.type]
    rates = {}
    kinds: list[tuple[str, torch.dtype, bool]] = [("float32", torch.float32, False), ("float64", torch.float64, False)]
    if device.type == "cuda":
        kinds += [("tf32", torch.float32, True), ("bfloat16", torch.bfloat16, False), ("float16", torch.float16, False)]
    before = torch.get_float32_matmul_precision()
    try:
        for name, dtype, tf32 in kinds:
            torch.set_float32_matmul_precision("high" if tf32 else "highest")
            small = side // 2 if dtype is torch.float64 else side
            left = torch.randn(small, small, device=device).to(dtype)
            right = torch.randn(small, small, device=device).to(dtype)
            out = torch.empty_like(left)
            rates[name] = 2 * small**3 / _time(partial(torch.matmul, left, right, out=out), device)
    finally:
        torch.set_float32_matmul_precision(before)
    return rates


def _launch_cost(device: torch.device) -> float:
    tensor = torch.zeros(1, device=device)
    return _time(lambda: tensor.add_(1), device, inner=1000)


def _graph_node_cost(device: torch.device) -> float:
    return _time_captured(partial(torch.zeros(1, device=device).add_, 1), device)


def _sync_cost(device: torch.device) -> float:
    tensor = torch.ones(16, device=device)
    return _time(lambda: tensor.sum().item(), device, inner=100)


def _time(work: Callable[[], object], device: torch.device, *, inner: int = 1) -> float:
    """Least seconds of one call, in blocks of `inner` calls, host to host: a ceiling is the best that was seen."""
    samples = []
    for repeat in range(WARMUP + REPEATS):
        _wait(device)
        start = time.perf_counter()
        for _ in range(inner):
            work()
        _wait(device)
        if repeat >= WARMUP:
            samples.append((time.perf_counter() - start) / inner)
    return min(samples)


def _time_captured(work: Callable[[], object], device: torch.device) -> float:
    """Least seconds of one call as a node of a CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(NODES):
            work()
    return _time(graph.replay, device, inner=10) / NODES


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
