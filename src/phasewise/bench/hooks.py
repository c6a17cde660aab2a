"""Look at the hooks that are not timed: they may copy and rearrange, but do none of the step's work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from phasewise.bench.case import BuiltCase
from phasewise.bench.commands import WorkerState
from phasewise.bench.counting import ALLOCATIONS, OperatorWatch, run_as_written
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


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One of a program's hooks, called with what a step returned."""

    name: str
    run: Callable[[Any], Any]
    # what it works on beside that
    given: Any = ()
    # whether it is followed where the memory of its results comes from
    is_traced: bool = False
    # what the calls before were given and gave
    held: list[Any] = field(default_factory=list)


def find_hook_work(case: BuiltCase, batch: Batch) -> str:
    """A sentence on a hook that does something worth timing; "" if none does.

    All hooks are called after each of a few steps, and each of them once as the first: what a step has put off is done by the first who asks.
    """
    hooks = _list_hooks(case, batch)
    problem = ""
    for turn, first in enumerate(_take_turns(hooks)):
        raw = _step(case, batch)
        for hook in (first, *(other for other in hooks if other is not first)):
            problem = problem or _call(hook, raw, is_settled=turn >= EARLIER)
    for hook in hooks if case.device.type == "cuda" and not problem else ():
        if kernel := _find_foreign_kernel(hook.run, _step(case, batch), case.device):
            problem = f"`{hook.name}`, which is not timed, launches {kernel}, a kernel that is not ATen's"
            break
    return f"{problem}; move the work into the step" if problem else ""


def _list_hooks(case: BuiltCase, batch: Batch) -> list[Hook]:
    program, initial = case.program, case.initial
    place, outputs, state, load = program.place, program.outputs, program.state, program.load
    assert place is not None and outputs is not None, "fill_defaults has run"
    # other packages are what a peer is made of
    is_traced = case.device.type == "cpu" and case.plan.peer is None
    hooks = []
    if state is not None:
        hooks.append(Hook(name="state", run=lambda raw: dict(state())))
    if load is not None:
        hooks.append(Hook(name="load", run=lambda raw: load(initial), given=initial))
    # a mapping may compute when it is read
    hooks.append(Hook(name="outputs", run=lambda raw: dict(outputs(raw)), is_traced=is_traced))
    # a peer that makes its own format there only looks faster by it, and nobody claims that it is
    if case.planned.inputs == "resident" and case.plan.peer is None:
        hooks.append(Hook(name="place", run=lambda raw: place(batch), given=batch, is_traced=is_traced))
    return hooks


def _take_turns(hooks: list[Hook]) -> list[Hook]:
    """Who is called first after each step; those that are traced once enough calls have shown what memory the program holds."""
    plain = [hook for hook in hooks if not hook.is_traced]
    traced = [hook for hook in hooks if hook.is_traced]
    return traced[:1] * (EARLIER - len(plain)) + plain + traced


def _call(hook: Hook, raw: Any, is_settled: bool) -> str:
    """What a call of a hook does wrong, as the beginning of a sentence; "" if nothing."""
    with run_as_written(), MemoryTrace() if hook.is_traced else OperatorWatch() as watch:
        result = hook.run(raw)
    problem = _find_work(watch, (hook.given, raw, result))
    if isinstance(watch, MemoryTrace):
        if is_settled and not problem:
            problem = _find_unknown(watch, result, known=find_memory([hook.given, hook.held, raw]))
        hook.held.extend((raw, result, watch.kept))
    return problem and f"`{hook.name}`, which is not timed, {problem}"


def _find_work(watch: OperatorWatch, seen: Iterable[Any]) -> str:
    """What of the operators is work, as a clause, where `seen` is what they were given and gave; "" if none is."""
    elements = sum(tensor.numel() for value in seen for tensor in tensors_in(value).values())
    product = next((operator for operator in watch.operators if PRODUCTS.fullmatch(operator)), None)
    if product is not None:
        return f"calls {product}"
    foreign = next((operator for operator in watch.operators if not operator.startswith(LIBRARIES)), None)
    if foreign is not None:
        return f"calls {foreign}, an operator that is not ATen's"
    if watch.elements > MOST_TOUCHED * (elements + FEW):
        return f"touches {watch.elements:,} elements where it is given {elements:,}"
    return ""


def _find_unknown(trace: MemoryTrace, result: Any, known: set[int]) -> str:
    """As `_find_work`, of memory that no operator seen here has written: code beside torch or another thread has."""
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
