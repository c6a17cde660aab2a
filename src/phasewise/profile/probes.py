"""Alternatives tried on the recorded shapes: predictions by experiment, on a GPU only.

`now_s` and `then_s` are seconds of one call, `calls` the calls of a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import torch

from phasewise.profile.names import categorise_kernel
from phasewise.profile.operators import NANO, make_finder, nest, tensor_inputs
from phasewise.profile.timeline import Frame
from phasewise.profile.trace import KERNEL, Trace
from phasewise.records.finding import FindingId
from phasewise.records.machine import Machine
from phasewise.records.profile import Kernel, Operator, Probe

# products that are tried: those in which most of the time goes
PRODUCTS = 3
# parameters of the optimizer that is tried
TENSORS = 64
ELEMENTS = 16384
REPEATS = 7
# one measured repeat lasts about so long
REPEAT_S = 0.002
# kernels in a row that one pass could do
CHAIN = 3
FUSIBLE = frozenset({"elementwise", "reduction", "copy"})
ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "complex64": 8,
    "complex128": 16,
    "bfloat16": 2,
    "float16": 2,
    "int64": 8,
    "int32": 4,
}


def run_probes(
    trace: Trace, frames: Sequence[Frame], operators: Sequence[Operator], kernels: Sequence[Kernel],
    machine: Machine, device: torch.device,
) -> tuple[Probe, ...]:  # fmt: skip
    """All probes for which the profile gives cause; none on a CPU."""
    if device.type != "cuda":
        return ()
    return (
        *probe_products(operators, device),
        *probe_optimizer(kernels, device),
        *probe_pinning(frames, device),
        *probe_chains(trace, frames, machine),
    )


def probe_products(operators: Sequence[Operator], device: torch.device) -> list[Probe]:
    """The longest float32 products as they are, in tf32 and in bfloat16."""
    probes = []
    products = [row for row in operators if row.device_s and _product_shapes(row) is not None]
    for row in sorted(products, key=lambda row: -row.device_s)[:PRODUCTS]:
        shapes = _product_shapes(row)
        assert shapes is not None, "filtered above"
        left, right = (torch.randn(shape, device=device) for shape in shapes)
        before = torch.get_float32_matmul_precision()
        try:
            torch.set_float32_matmul_precision("highest")
            now = _time(partial(torch.matmul, left, right))
            torch.set_float32_matmul_precision("high")
            tf32 = _time(partial(torch.matmul, left, right))
        finally:
            torch.set_float32_matmul_precision(before)
        bfloat16 = _time(partial(torch.matmul, left.bfloat16(), right.bfloat16()))
        for kind, then in (("tf32", tf32), ("bfloat16", bfloat16)):
            what = f"{row.name} {row.shapes} in {kind}"
            probes.append(_probe(FindingId.MATMUL_IN_FP32, what, now, then, row.calls))
    return probes


def probe_optimizer(kernels: Sequence[Kernel], device: torch.device) -> list[Probe]:
    """AdamW over many small tensors: one kernel for all (fused) against the default (foreach)."""
    steps = [kernel for kernel in kernels if "multi_tensor_apply" in kernel.name]
    if not steps or any("fusedadam" in kernel.name.lower() for kernel in steps):
        return []
    times = {}
    for kind in ("foreach", "fused"):
        tensors = [torch.zeros(ELEMENTS, device=device, requires_grad=True) for _ in range(TENSORS)]
        for tensor in tensors:
            tensor.grad = torch.ones_like(tensor)
        optimizer = torch.optim.AdamW(tensors, lr=1e-3, foreach=kind == "foreach", fused=kind == "fused")
        times[kind] = _time(optimizer.step)
    what = f"AdamW over {TENSORS} tensors of {ELEMENTS}, fused instead of foreach"
    return [_probe(FindingId.OPTIMIZER_NOT_FUSED, what, times["foreach"], times["fused"], 1.0)]


def probe_pinning(frames: Sequence[Frame], device: torch.device) -> list[Probe]:
    """A copy of the mean recorded size from pageable and from pinned memory to the device."""
    copies = [event for frame in frames for event in frame.work if "HtoD" in event.name and "Pageable" in event.name]
    size = round(sum(event.args.get("bytes", 0) for event in copies) / max(len(copies), 1))
    if not size:
        return []
    pageable = torch.empty(size, dtype=torch.uint8)
    pinned = pageable.pin_memory()
    into = torch.empty(size, dtype=torch.uint8, device=device)
    now, then = _time(lambda: into.copy_(pageable)), _time(lambda: into.copy_(pinned, non_blocking=True))
    return [
        _probe(
            FindingId.PAGEABLE_COPY, f"copy of {size} bytes from pinned memory", now, then, len(copies) / len(frames)
        )
    ]


def probe_chains(trace: Trace, frames: Sequence[Frame], machine: Machine) -> list[Probe]:
    """Kernels in a row that one pass could do: their time against reading and writing the largest tensor once.

    Optimistic, since further inputs of the chain are not counted: an experiment by the measured copy rate, not by a kernel.
    """
    if machine.peaks is None or not frames:
        return []
    finder = make_finder(nest(trace.operators))
    frame = frames[(len(frames) - 1) // 2]
    now = then = 0.0
    chains = 0
    chain: list[tuple[int, int]] = []
    for event in [*frame.work, None]:
        if event is not None and event.category == KERNEL and categorise_kernel(event.name) in FUSIBLE:
            launch = trace.launch_of(event)
            node = finder.at(launch) if launch is not None else None
            chain.append((event.duration, _largest(tensor_inputs(node.event)) if node is not None else 0))
            continue
        least = 2 * max((size for _, size in chain), default=0)
        if len(chain) >= CHAIN and least:
            chains += 1
            spent = sum(duration for duration, _ in chain) * NANO
            now += spent
            floor = max(least / _copy_rate(machine, least), machine.peaks.graph_node_s or 0.0)
            then += min(spent, floor)
        chain = []
    if not chains:
        return []
    what = f"{chains} chains of {CHAIN} or more kernels, each in one pass at the measured copy rate"
    return [_probe(FindingId.FUSIBLE_CHAIN, what, now / chains, then / chains, float(chains))]


def _probe(finding: FindingId, what: str, now: float, then: float, calls: float) -> Probe:
    return Probe(finding=finding.value, what=what, now_s=now, then_s=then, calls=calls)


def _copy_rate(machine: Machine, size: int) -> float:
    """Bytes per second, of a working set that fits in the cache where it does."""
    assert machine.peaks is not None, "checked by the caller"
    cached = machine.peaks.cached_copy_bytes_per_s
    return cached if cached and size < machine.cache_bytes // 2 else machine.peaks.copy_bytes_per_s


def _largest(inputs: Sequence[tuple[str, tuple[int, ...]]]) -> int:
    sizes = []
    for dtype, shape in inputs:
        size = ITEM_BYTES.get(dtype, 1)
        for extent in shape:
            size *= extent
        sizes.append(size)
    return max(sizes, default=0)


def _product_shapes(row: Operator) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shapes of the two factors of a float32 product."""
    base = row.name.rpartition("::")[2]
    if base not in ("mm", "addmm", "bmm", "baddbmm"):
        return None
    parts = row.shapes.split()
    factors = parts[1:3] if base in ("addmm", "baddbmm") else parts[:2]
    if len(factors) != 2 or not all(part.startswith("float32[") for part in factors):
        return None
    left, right = (tuple(int(size) for size in part[len("float32[") : -1].split(",") if size) for part in factors)
    return left, right


def _time(work: Callable[[], object]) -> float:
    """Median seconds of one call, on the device's clock, in blocks of about two milliseconds."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    inner = max(1, min(1000, int(REPEAT_S / max(time.perf_counter() - start, 1e-6))))
    samples = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(inner):
            work()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e-3 / inner)
    return median(samples)
