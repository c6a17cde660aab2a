"""Capture a step as a CUDA graph, or run it as it is and say why.

A captured step reads and writes fixed memory, so
- `capture` copies fresh inputs into the example's place before each replay; they must have its structure, shapes and dtypes;
- `capture_in_place` copies nothing: it captures once for each set of addresses that it meets, and replays read what lies there;
- outputs are the same tensors at every call: clone what has to outlive the next one;
- the step itself is held as long as its graph: what it closes over, such as a table of indices, is read where it lay;
- random numbers of torch's default generator advance with each replay; pass other generators in `generators`;
- an optimizer has to be built with `capturable=True`, and gradients either stay where they are
  (`zero_grad(set_to_none=False)` inside the step) or are None when the capture begins;
- the step must not wait for the device (`.item()`, `.cpu()`, printing a tensor), nor branch on its values;
- the warm-up really runs the step: load the state afterwards if it trains.

A capture that fails leaves nothing behind: random numbers, streams and other graphs go on as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

# cudaErrorStreamCaptureInvalidated
INVALIDATED = "previous error during capture"


@dataclass(frozen=True)
class Captured:
    """A step to call with a batch. `reason` is "" if it replays a graph, else why it runs eagerly."""

    call: Callable[[Any], Any]
    reason: str = ""

    @property
    def is_graph(self) -> bool:
        return not self.reason


def capture(
    step: Callable[[Any], Any], example: Any, *, warmup: int = 3, generators: Sequence[torch.Generator] = ()
) -> Captured:
    """Capture `step(example)` after `warmup` calls on a side stream.

    `example` is a tensor or any nesting of dicts, lists and tuples; what is not a tensor is a constant of the graph.
    What the step itself raises during the warm-up is raised here: only a failed capture falls back.
    """
    reason = _why_not(example)
    if reason:
        return Captured(step, reason)
    static = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), example)
    (device,) = _devices_of(static)
    with torch.cuda.device(device):
        _warm_up(step, static, warmup)
        try:
            graph, outputs = record(step, static, device, generators)
        except RuntimeError as error:
            return Captured(step, f"the capture failed: {_first_line(error)}")

    def replay(batch: Any) -> Any:
        copy_in(static, batch)
        graph.replay()
        return outputs

    return Captured(replay)


def capture_in_place(
    step: Callable[[dict[str, torch.Tensor]], Any],
    example: dict[str, torch.Tensor],
    *,
    warmup: int = 3,
    most: int = 16,
) -> Captured:
    """Capture `step` for batches that are read where they lie: for inputs that stay on the GPU, such as a ring of them.

    There is one graph for each set of addresses, shapes, strides and dtypes, captured when it is first met, and `most` at a
    time; beyond that the step runs as it is. So any batch is answered from its own values, whoever allocated it, and a
    replay launches the step's kernels and nothing else. The names must come in the same order each time. What was met is
    held, so it stays allocated; its shape must not be changed in place.
    """
    graphs: dict[Any, tuple[torch.cuda.CUDAGraph, Any]] = {}
    # tensors that were met before, held so that no other gets their identity: asking for shapes takes longer than a small step
    known: dict[tuple[int, ...], tuple[list[torch.Tensor], list[int], torch.cuda.CUDAGraph, Any]] = {}
    reason = _why_not(example)
    if reason:
        return Captured(step, reason)
    device = next(iter(example.values())).device
    try:
        graphs[_lie_of(example)] = _capture_at(step, example, device, warmup)
    except RuntimeError as error:
        return Captured(step, f"the capture failed: {_first_line(error)}")

    def call(batch: dict[str, torch.Tensor]) -> Any:
        names = tuple(map(id, batch.values()))
        met = known.get(names)
        if met is None or [x.data_ptr() for x in met[0]] != met[1]:
            lie = _lie_of(batch)
            found = graphs.get(lie)
            if found is None:
                if len(graphs) >= most:
                    return step(batch)
                found = graphs[lie] = _capture_at(step, batch, device, warmup)
            if len(known) >= most:
                known.clear()
            tensors = list(batch.values())
            met = known[names] = (tensors, [x.data_ptr() for x in tensors], *found)
        met[2].replay()
        return met[3]

    return Captured(call)


def _lie_of(batch: dict[str, torch.Tensor]) -> tuple[Any, ...]:
    """What a graph stands on. A tensor at the same address, seen in the same way, is read as it is, even if it is another."""
    return tuple([(name, x.data_ptr(), x.shape, x.stride(), x.dtype) for name, x in batch.items()])


def _capture_at(
    step: Callable[[Any], Any], batch: Any, device: torch.device, warmup: int
) -> tuple[torch.cuda.CUDAGraph, Any]:
    with torch.cuda.device(device):
        _warm_up(step, batch, warmup)
        # what was captured has not run
        return record(step, batch, device)


def record(
    step: Callable[[Any], Any], batch: Any, device: torch.device, generators: Sequence[torch.Generator] = ()
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """One call of `step` as a graph, and its outputs; nothing is warmed up. Where that fails, stream, memory and generators are as before when the error leaves.

    The graph holds `step`, but not `batch`: who replays it says where inputs lie.
    """
    pool = torch.cuda.graph_pool_handle()
    try:
        # a capture that fails leaves its own stream the current one
        with torch.cuda.stream(torch.cuda.current_stream(device)):
            graph, outputs = _run_into_graph(lambda: step(batch), generators, pool)
    except RuntimeError:
        torch.cuda.synchronize(device)
        _give_back(pool, device)
        # generators stay in the state of a capture until one succeeds: no number could be drawn, nor a graph with some replayed
        count = torch.zeros((), device=device)
        _run_into_graph(lambda: count.add_(1), generators, torch.cuda.graph_pool_handle())
        raise
    # a graph knows addresses only: a tensor of the step's own that was freed would be read all the same
    graph.step = step  # type: ignore[attr-defined]
    return graph, outputs


def _run_into_graph(
    work: Callable[[], Any], generators: Sequence[torch.Generator], pool: Any
) -> tuple[torch.cuda.CUDAGraph, Any]:
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    # thread_local: another thread, such as one that pins memory for a loader, may go on calling CUDA
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        outputs = work()
    return graph, outputs


def _give_back(pool: Any, device: torch.device) -> None:
    """Let the allocator free the memory of a capture that failed; without this it would be held for good."""
    try:
        torch._C._cuda_endAllocateToPool(device.index, pool)
    except RuntimeError:
        # the capture itself ended, and only the step raised: its graph gives the pool back
        return
    torch._C._cuda_releasePool(device.index, pool)


def _why_not(example: Any) -> str:
    """Why no graph can be captured for this example; "" if one can."""
    if not torch.cuda.is_available():
        return "CUDA graphs need an NVIDIA GPU"
    count = len(_devices_of(example))
    if count != 1:
        return f"the example's tensors lie on {count} GPUs; a CUDA graph needs exactly one"
    return ""


def _devices_of(example: Any) -> set[torch.device]:
    """The GPUs on which tensors of the example lie."""
    return {leaf.device for leaf in pytree.tree_leaves(example) if isinstance(leaf, torch.Tensor) and leaf.is_cuda}


def copy_in(static: Any, batch: Any) -> None:
    """Copy the tensors of `batch` into those of `static`.

    Raises:
        ValueError: they differ in structure, shape or dtype, or in a value that is not a tensor.
    """
    leaves, structure = pytree.tree_flatten(static)
    fresh, other = pytree.tree_flatten(batch)
    if structure != other:
        raise ValueError(f"the batch is built as {other}, the captured example as {structure}; capture again for it")
    for index, (into, source) in enumerate(zip(leaves, fresh, strict=True)):
        if not isinstance(into, torch.Tensor):
            if isinstance(source, torch.Tensor) or into != source:
                raise ValueError(
                    f"leaf {index} of the batch is {source!r}, it was captured as {into!r}; capture again for it"
                )
        elif not isinstance(source, torch.Tensor) or source.shape != into.shape or source.dtype != into.dtype:
            raise ValueError(
                f"leaf {index} of the batch is {_kind(source)}, it was captured as {_kind(into)}; capture again for it"
            )
    # a caller may fill the static tensors in place and pass them back
    pairs = [
        (into, source)
        for into, source in zip(leaves, fresh, strict=True)
        if isinstance(into, torch.Tensor) and into is not source
    ]
    with torch.no_grad():
        # one launch for all that lie on one device and have one dtype
        if pairs:
            torch._foreach_copy_([into for into, _ in pairs], [source for _, source in pairs], non_blocking=True)


def _warm_up(step: Callable[[Any], Any], static: Any, warmup: int) -> None:
    """Lazy initialisation, autotuning and allocation happen here, on another stream than the capture's."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warmup):
            step(static)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return f"a {type(value).__name__}"


def _first_line(error: BaseException) -> str:
    """What failed first, in one line."""
    # to end a capture that failed is an error of its own, which came while the first one was on its way
    if INVALIDATED in str(error) and error.__context__ is not None:
        error = error.__context__
    return (str(error).strip() or type(error).__name__).splitlines()[0]
