"""Guards on hooks that are not timed: they may copy and rearrange, and do none of the step's work."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from phasewise.bench.counting import find_memory, watch_operators
from phasewise.records.validate import Guard, guard
from phasewise.tensors import tensors_in
from phasewise.validate.trial import Trial

# a hook may touch so many times the elements that it is given, and a few more where these are few
MOST_TOUCHED = 16
FEW = 4096
# ATen's operators that are work: products, transforms, solvers
PRODUCTS = re.compile(
    r"aten::(_?(add)?b?mm|_?addbmm|_?baddbmm|_?(add)?mv|v?dot|_scaled_.*mm|linear|matmul|einsum|.*conv.*|_?fft.*|_?linalg.*|.*solve.*"
    r"|.*dot_product.*|_?cdist.*|.*inverse.*|.*cholesky.*|.*softmax.*)"
)
# results of so many calls before show what memory a program hands out again and again
EARLIER = 2
# operators of these libraries move data between tensors or ranks
LIBRARIES = ("aten::", "prim::", "prims::", "c10d::", "_c10d_functional::")
# kernels of ATen, and of the libraries by which it copies, sorts and fills
ATEN_KERNELS = re.compile(r"at::|at_cuda_detail|cub::|thrust::|Memcpy|Memset|nccl|cudaGraph", re.IGNORECASE)


def hooks_only_copy(trial: Trial) -> Guard:
    """`outputs`, `state`, `load` and the `place` of resident inputs do nothing that is worth timing."""
    name = "hooks-only-copy"
    program, initial = trial.case.program, trial.case.initial
    batch = trial.batch(0)
    # a mapping may compute when it is read
    hooks: dict[str, Callable[[Any], Any]] = {"outputs": lambda raw: dict(trial.raw_outputs(raw))}
    if program.state is not None:
        state = program.state
        hooks["state"] = lambda raw: dict(state())
    if program.load is not None:
        load = program.load
        hooks["load"] = lambda raw: load(initial)
    if trial.case.planned.inputs == "resident":
        hooks["place"] = lambda raw: trial.place(batch)
    given = {"outputs": (), "state": (), "load": initial, "place": batch}
    for hook, run in hooks.items():
        # right after a step: what that has put off is done by the first who asks
        problem = _watch(trial, run, given[hook])
        if not problem and hook in ("outputs", "place"):
            problem = _trace(trial, run, given[hook])
        if problem:
            return guard(name, f"`{hook}`, which is not timed, {problem}; move the work into the step")
    return guard(name, "")


def _watch(trial: Trial, run: Callable[[Any], Any], given: Any) -> str:
    """What is wrong with a hook, as a clause; "" if nothing is."""
    raw = _step(trial)
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
    if trial.case.device.type == "cuda" and (kernel := _find_foreign_kernel(run, _step(trial), trial.case.device)):
        return f"launches {kernel}, a kernel that is not ATen's"
    return ""


def _trace(trial: Trial, run: Callable[[Any], Any], given: Any) -> str:
    """The same of results that come from somewhere else: code beside torch, or another thread, which no operator here has seen."""
    if trial.case.device.type != "cpu" or trial.case.plan.peer is not None:
        # other packages are what a peer is made of
        return ""
    # kept, so that their memory is not given out anew
    earlier = [run(_step(trial)) for _ in range(EARLIER)]
    raw = _step(trial)
    with watch_operators() as watch:
        result = run(raw)
    known = watch.written.union(*(find_memory(tensors_in(value).values()) for value in (given, raw, *earlier)))
    for path, tensor in tensors_in(result).items():
        if tensor.numel() and not find_memory([tensor]) <= known:
            return f"gives {path.removeprefix('/') or 'a tensor'}, which no operator of ATen has written"
    return ""


def _step(trial: Trial) -> Any:
    trial.case.restore()
    raw = trial.case.step(trial.place(trial.batch(0)))
    trial.case.synchronize()
    return raw


def _find_foreign_kernel(run: Callable[[Any], Any], raw: Any, device: torch.device) -> str:
    """Name of a kernel that the hook launches past ATen; "" where there is none."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        run(raw)
        torch.cuda.synchronize(device)
    names = [event.name for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return next((name for name in names if not ATEN_KERNELS.search(name)), "")
