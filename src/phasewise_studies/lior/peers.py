"""The same window by what PyTorch brings: its compiler, a plain graph, and its attention operators for the retrieval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.lior import program
from phasewise_studies.lior.data import BATCH, name_report
from phasewise_studies.lior.eager import Ran, update
from phasewise_studies.lior.epilogue import finish
from phasewise_studies.lior.product.trainer import capture_window, set_precision
from phasewise_studies.lior.prologue import Turned, turn
from phasewise_studies.lior.retrieval import measure_cost, weigh
from phasewise_studies.lior.state import Memory, load_state, place_memory, read_state
from phasewise_studies.lior.switches import CAPTURED, Switches
from phasewise_studies.lior.window import (
    BETA,
    EPS,
    NUDGE_SCALE,
    SOURCE_STEP,
    Sizes,
    Window,
    contrast_phases,
    hop,
    laplacian,
    read_sizes,
    rotate_by_layers,
)

Batch = Mapping[str, Tensor]
# heads into which flex attention's values are cut, so that a block of them fits into shared memory
FLEX_WIDTH = 64
# flex attention takes no fewer numbers a query
FLEX_QUERY = 16


def plain_cuda_graph(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The user's window as one graph, with only what a capture demands changed."""
    return program.build(Switches(**CAPTURED), inputs, case, shape, device)


def torch_compile_reduce_overhead(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """torch.compile of the step, with the compiler's own CUDA graphs."""
    return _compile_steps("reduce-overhead", inputs, shape, device)


def torch_compile_max_autotune(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The same with autotuned products."""
    return _compile_steps("max-autotune", inputs, shape, device)


def sdpa(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The open window with its retrieval as one scaled_dot_product_attention, the distances as its mask."""

    def attend(scores: Tensor, states: Tensor) -> Tensor:
        steps, rows, bank = scores.shape
        query = torch.zeros(1, 1, steps * rows, 8, device=states.device)
        key = torch.zeros(1, 1, bank, 8, device=states.device)
        mask = scores.reshape(1, 1, steps * rows, bank)
        return torch.nn.functional.scaled_dot_product_attention(query, key, states[None, None], attn_mask=mask)[0, 0]

    def retrieve(curvature: Tensor, distance: Tensor, states: Tensor) -> Tensor:
        return attend(-BETA * curvature[:, None, None] * distance, states)

    return _open_window(inputs, shape, device, retrieve)


def flex_attention(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The open window with its retrieval as one compiled flex_attention, the distances in its score_mod."""
    from torch.nn.attention.flex_attention import flex_attention as flex

    compiled = torch.compile(flex, dynamic=False)

    def retrieve(curvature: Tensor, distance: Tensor, states: Tensor) -> Tensor:
        rows, bank = distance.shape
        heads = states.shape[1] // FLEX_WIDTH

        def score(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return -BETA * curvature[q // rows] * distance[q % rows, k]

        query = torch.zeros(1, heads, len(curvature) * rows, FLEX_QUERY, device=states.device)
        key = torch.zeros(1, heads, bank, FLEX_QUERY, device=states.device)
        values = states.view(bank, heads, FLEX_WIDTH).transpose(0, 1).contiguous()[None]
        mixed = compiled(query, key, values, score_mod=score)
        return mixed[0].transpose(0, 1).reshape(len(curvature) * rows, states.shape[1])

    return _open_window(inputs, shape, device, retrieve)


def _open_window(
    inputs: Batch, shape: Shape, device: torch.device, retrieve: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Program:
    """Our field, then `retrieve(R (S,), distances (P B, K), states)` -> (S P B, d), then our updates; as one graph."""
    from phasewise_studies.lior.kernels.buffers import from_planes, make_buffers, to_planes
    from phasewise_studies.lior.kernels.time_parallel import run_open_field

    sizes, memory = read_sizes(shape), _prepare(inputs, device)
    buffers = make_buffers(memory, sizes, "float32")

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        turned = turn(memory, batch, sizes, "float32")
        end = run_open_field(buffers, sizes)
        means, moduli = (trace[: sizes.steps].expand(-1, sizes.phases, -1) for trace in (buffers.means, buffers.moduli))
        curvature = moduli[:, 0].sum(-1) / (sizes.components * sizes.points)
        distance = _measure_distances(turned, means[0, 0], memory, buffers.signs)
        mixed = retrieve(curvature, distance, memory.states)
        mixed = mixed.view(sizes.steps, sizes.phases, sizes.batch, sizes.state)
        return finish(memory, batch, sizes, buffers.signs, means, moduli, mixed, (buffers.start, end, buffers.rest))

    def load(tensors: Batch) -> None:
        load_state(memory, tensors)
        buffers.start.copy_(to_planes(tensors["field"]))

    window = Window(run, lambda: read_state(memory) | {"field": from_planes(buffers.start, sizes)}, load)
    return _wrap(window, inputs, device)


def _measure_distances(turned: Turned, mean: Tensor, memory: Memory, signs: Tensor) -> Tensor:
    free = turned.tokens + mean @ turned.projection
    q = free + NUDGE_SCALE * signs * (turned.targets - free)
    difference = turned.coords - q.flatten(0, 1)[:, None, :]
    return torch.sqrt(difference.square().sum(-1) + EPS).masked_fill(~memory.valid, torch.inf)


def _compile_steps(mode: str, inputs: Batch, shape: Shape, device: torch.device) -> Program:
    """The eager window whose step, complex numbers written as pairs, went through torch.compile in `mode`."""
    sizes, memory = read_sizes(shape), _prepare(inputs, device)
    for tensor in (memory.metric, memory.theta, memory.states, memory.valid, memory.projection, memory.lift):
        # else the compiler's graphs copy the bank at every step
        torch._dynamo.mark_static_address(tensor)
    hops = torch.tensor([hop(step) for step in range(sizes.steps)], device=device)
    step = torch.compile(_advance, mode=mode, fullgraph=True, dynamic=False)
    quick = Switches(metrics="window", progress_every=0, rotor_update="vectorised")

    def run_phase(batch: dict[str, Tensor], sign: float, free: list[Tensor] | None) -> tuple[Ran, list[Tensor]]:
        field = torch.view_as_real(memory.field)
        re, im = field[..., 0].contiguous(), field[..., 1].contiguous()
        coords = rotate_by_layers(memory.coords, memory.theta, memory.layers)
        none = torch.zeros_like(batch["tokens"])
        kept: list[tuple[Tensor, ...]] = []
        for index in range(sizes.steps):
            nudge = none if free is None else sign * NUDGE_SCALE * (batch["targets"] - free[index])
            torch.compiler.cudagraph_mark_step_begin()
            found = step(re, im, batch["tokens"], nudge, coords, memory, hops[index], sizes)
            # the compiler's graphs write their results over the last ones
            re, im, *rest = (tensor.clone() for tensor in found)
            kept.append(tuple(rest))
        q, y, lior, curvature, speed = (list(column) for column in zip(*kept, strict=True))
        lior, curvature, speed = (torch.stack(column).mean() for column in (lior, curvature, speed))
        ran = Ran(torch.complex(re, im), torch.stack(q).mean(0), lior, curvature, speed, q, y)
        return ran, q

    def run(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        free, coordinates = run_phase(batch, 0.0, None)
        phases = [free] + [run_phase(batch, sign, coordinates)[0] for sign in sizes.signs[1:]]
        report: dict[str, Any] = {
            name: torch.stack([getattr(p, name) for p in phases]) for name in ("lior", "curvature", "speed")
        }
        report["retrieved"] = torch.stack([torch.stack(phase.retrieved) for phase in phases])
        update(memory, batch, free, contrast_phases(report["lior"]), quick)
        return report

    window = Window(run, lambda: read_state(memory), lambda tensors: load_state(memory, tensors))
    return _wrap(window, inputs, device, graph=False)


def _advance(
    re: Tensor, im: Tensor, tokens: Tensor, nudge: Tensor, coords: Tensor, memory: Memory, hop: Tensor, sizes: Sizes
) -> tuple[Tensor, ...]:
    """One step: next field, coordinates, retrieved states, LIoR, R, spd."""
    curvature = torch.sqrt(re.square() + im.square()).mean()
    q = tokens + memory.projection @ re.mean((0, 1)).flatten() + nudge
    speed = torch.sqrt((q.square() * memory.metric).sum(-1) + EPS)
    query = rotate_by_layers(q, memory.theta, memory.layers)
    y = weigh(measure_cost(query, coords, memory.valid, memory.metric, curvature)) @ memory.states
    after_re, after_im = re + hop * laplacian(im), im - hop * laplacian(re)
    if sizes.feedback:
        after_re = after_re + SOURCE_STEP * (memory.lift @ y.mean(0)).view(sizes.inner, sizes.inner)
    return after_re, after_im, q, y, (curvature * speed).mean(), curvature, speed.mean()


def _prepare(inputs: Batch, device: torch.device) -> Memory:
    set_precision()
    return place_memory(inputs, device)


def _wrap(window: Window, inputs: Batch, device: torch.device, *, graph: bool = True) -> Program:
    def place(batch: Batch) -> dict[str, Tensor]:
        return {name: batch[name].to(device, torch.float32, copy=True) for name in BATCH}

    step, reason = capture_window(window.run, window, place(inputs), 3) if graph else (window.run, "")
    return Program(
        step=step, place=place, load=window.load, state=window.state, outputs=name_report,
        fallbacks=(reason,) if reason else (),
    )  # fmt: skip
