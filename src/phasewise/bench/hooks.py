"""Look at the hooks that are not timed: they may copy and rearrange, but do none of the step's work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from phasewise.bench.case import BuiltCase
from phasewise.bench.commands import WorkerState
from phasewise.bench.counting import ALLOCATIONS, OperatorWatch, run_as_written, watch_operators
from phasewise.bench.functions import Batch
from phasewise.tensors import clone, tensors_in

# a hook may touch so many times the elements that it is given, and a few more where these are few
MOST_TOUCHED = 16
FEW = 4096
# elements of a tensor that may come from plain values, such as a position or a float that the step returned
PLAIN = 64
# calls before the one that counts: they show what memory a program holds on to
EARLIER = 2
# ATen's operators that are work: products, transforms, solvers
PRODUCTS = re.compile(
    r"aten::(_?(add)?b?mm|_?addbmm|_?baddbmm|_?(add)?mv|v?dot|_scaled_.*mm|linear|matmul|einsum|.*conv.*|_?fft.*|_?linalg.*|.*solve.*"
    r"|.*dot_product.*|_?cdist.*|.*inverse.*|.*cholesky.*|.*softmax.*)"
)
# operators of these libraries move data between tensors or ranks
LIBRARIES = ("aten::", "prim::", "prims::", "c10d::", "_c10d_functional::")
# kernels of ATen, and of the libraries by which it copies, sorts and fills
ATEN_KERNELS = re.compile(r"at::|at_cuda_detail|cub::|thrust::|Memcpy|Memset|nccl|cudaGraph", re.IGNORECASE)


class MemoryTrace(OperatorWatch):
    """What memory each operator read and wrote. All of it is kept alive, so that no address comes twice."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[set[int], set[int]]] = []
        self.kept: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_dispatch__(func, types, args, kwargs)
        self.kept.append((args, kwargs, found))
        if not func.is_view and not self.operators[-1].startswith(ALLOCATIONS):
            names = [argument.name for argument in func._schema.arguments]
            given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
            into = {
                one.name for one in func._schema.arguments if one.alias_info is not None and one.alias_info.is_write
            }
            read = find_memory([value for name, value in given.items() if name not in into], more_than=PLAIN)
            self.calls.append((read, find_memory([found, *(given[name] for name in into & given.keys())])))
        return found


def look_at_hooks(worker: WorkerState) -> str:
    """What is wrong with a hook of the program that a worker has open, which has stepped for a while; "" if nothing is."""
    case = worker.bench.case
    assert case is not None, "a function has no hooks"
    return find_hook_work(case, case.batches[0])


def find_hook_work(case: BuiltCase, batch: Batch) -> str:
    """A sentence on a hook that does something worth timing; "" if none does."""
    program, initial = case.program, case.initial
    place, outputs = program.place, program.outputs
    assert place is not None and outputs is not None, "fill_defaults has run"
    # a mapping may compute when it is read
    hooks: dict[str, Callable[[Any], Any]] = {"outputs": lambda raw: dict(outputs(raw))}
    if program.state is not None:
        state = program.state
        hooks["state"] = lambda raw: dict(state())
    if program.load is not None:
        load = program.load
        hooks["load"] = lambda raw: load(initial)
    if case.planned.inputs == "resident":
        hooks["place"] = lambda raw: place(batch)
    given: dict[str, Any] = {"outputs": (), "state": (), "load": initial, "place": batch}
    for hook, run in hooks.items():
        # right after a step, since what the step has put off is done by the first hook that asks
        problem = _watch(case, batch, run, given[hook])
        if not problem and hook in ("outputs", "place"):
            problem = _trace(case, batch, run, given[hook])
        if problem:
            return f"`{hook}`, which is not timed, {problem}; move the work into the step"
    return ""


def _watch(case: BuiltCase, batch: Batch, run: Callable[[Any], Any], given: Any) -> str:
    """What is wrong with a hook, as a clause; "" if nothing is."""
    raw = _step(case, batch)
    with watch_operators() as watch:
        result = run(raw)
    elements = sum(tensor.numel() for value in (given, raw, result) for tensor in tensors_in(value).values())
    product = next((operator for operator in watch.operators if PRODUCTS.fullmatch(operator)), None)
    if product is not None:
        return f"calls {product}"
    foreign = next((operator for operator in watch.operators if not operator.startswith(LIBRARIES)), None)
    if foreign is not None:
        return f"calls {foreign}, an operator that is not ATen's"
    if watch.elements > MOST_TOUCHED * (elements + FEW):
        return f"touches {watch.elements:,} elements where it is given {elements:,}"
    if case.device.type == "cuda" and (kernel := _find_foreign_kernel(run, _step(case, batch), case.device)):
        return f"launches {kernel}, a kernel that is not ATen's"
    return ""


def _trace(case: BuiltCase, batch: Batch, run: Callable[[Any], Any], given: Any) -> str:
    """As `_watch`, of memory that no operator seen here has written: code beside torch or another thread has."""
    if case.device.type != "cpu" or case.plan.peer is not None:
        # other packages are what a peer is made of
        return ""
    held: list[Any] = [given]
    for _ in range(EARLIER):
        raw = _step(case, batch)
        with run_as_written(), MemoryTrace() as before:
            held += [raw, run(raw)]
        held.append(before.kept)
    raw = _step(case, batch)
    with run_as_written(), MemoryTrace() as trace:
        result = run(raw)
    known = find_memory([held, raw])
    for read, written in trace.calls:
        if not read <= known:
            return "reads memory that no operator of ATen has written"
        known |= written
    for path, tensor in tensors_in(result).items():
        if not find_memory([tensor], more_than=PLAIN) <= known:
            return f"gives {path.removeprefix('/') or 'a tensor'}, which no operator of ATen has written"
    return ""


def find_memory(value: Any, more_than: int = 0) -> set[int]:
    """Addresses of the storages of dense tensors with more than `more_than` elements, in nested containers."""
    tensors = [tensor for leaf in tree_leaves(value) for tensor in tensors_in(leaf).values()]
    return {
        tensor.untyped_storage().data_ptr()
        for tensor in tensors
        if tensor.layout == torch.strided and tensor.numel() > more_than
    }


def _step(case: BuiltCase, batch: Batch) -> Any:
    case.restore()
    assert case.program.place is not None, "fill_defaults has run"
    # a copy, in case a step changes its batch, which it may not
    raw = case.step(case.program.place(clone(batch)))
    case.synchronize()
    return raw


def _find_foreign_kernel(run: Callable[[Any], Any], raw: Any, device: torch.device) -> str:
    """Name of a kernel that the hook launches past ATen; "" where there is none."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        run(raw)
        torch.cuda.synchronize(device)
    names = [event.name for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return next((name for name in names if not ATEN_KERNELS.search(name)), "")
