"""The window in eager PyTorch: by default as the user had it, each phase of the document switched on by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from phasewise.kit.regions import region
from phasewise_studies.lior.retrieval import choose_mix, keep_filled, measure_cost, mix_in, weigh
from phasewise_studies.lior.state import Memory, count_filled, relax_field, write_bank
from phasewise_studies.lior.switches import Switches
from phasewise_studies.lior.window import (
    EPS,
    ETA_OVER_BETA_NUDGE,
    METRIC_LEAST,
    METRIC_MOST,
    NUDGE_SCALE,
    ROTOR_RATE,
    SOURCE_STEP,
    Sizes,
    contrast_phases,
    hop,
    laplacian,
    list_planes,
    rotate_by_layers,
    update_geometry,
)

Progress = Callable[[int, float, float, float], None]


@dataclass
class Ran:
    """What one phase of a window leaves on the device."""

    field: Tensor
    velocity: Tensor
    # LIoR, curvature and speed, each a mean over steps and tokens
    lior: Tensor
    curvature: Tensor
    speed: Tensor
    coordinates: list[Tensor] = field(default_factory=list)
    retrieved: list[Tensor] = field(default_factory=list)
    # (3,) of each progress line that is read after the window
    history: list[Tensor] = field(default_factory=list)


def ignore_progress(step: int, lior: float, curvature: float, speed: float) -> None:
    """A progress line that nobody reads."""


def run_window(
    memory: Memory, batch: dict[str, Tensor], sizes: Sizes, switches: Switches, progress: Progress = ignore_progress
) -> dict[str, Tensor]:
    """Free phase, nudged phases, then the updates of metric, rotor, bank and field."""
    with region("free"):
        free = run_phase(memory, batch, sizes, switches, 0.0, None, progress)
    phases = [free]
    for sign in sizes.signs[1:]:
        with region("nudged"):
            phases.append(run_phase(memory, batch, sizes, switches, sign, free.coordinates, progress))
    report = {
        "lior": torch.stack([phase.lior for phase in phases]),
        "curvature": torch.stack([phase.curvature for phase in phases]),
        "speed": torch.stack([phase.speed for phase in phases]),
        "retrieved": torch.stack([torch.stack(phase.retrieved) for phase in phases]),
    }
    if free.history:
        report["history"] = torch.stack([line for phase in phases for line in phase.history])
    with region("update"):
        update(memory, batch, free, contrast_phases(report["lior"]), switches)
    return report


def run_phase(
    memory: Memory,
    batch: dict[str, Tensor],
    sizes: Sizes,
    switches: Switches,
    sign: float,
    free: list[Tensor] | None,
    progress: Progress,
) -> Ran:
    """S steps from the window's field; `free` holds the free phase's coordinates at each step."""
    zero = torch.zeros((), device=memory.metric.device, dtype=memory.metric.dtype)
    ran = Ran(memory.field, torch.zeros_like(batch["tokens"]), zero, zero.clone(), zero.clone())
    turned = rotate_by_layers(memory.coords, memory.theta, memory.layers) if switches.cached_rotation else None
    for step in range(sizes.steps):
        curvature = ran.field.abs().mean()
        mean = ran.field.mean((0, 1)).real.flatten()
        q = batch["tokens"] + memory.projection @ mean
        if free is not None:
            q = q + sign * NUDGE_SCALE * (batch["targets"] - free[step])
        lior, speed = measure_lior(q, memory.metric, curvature, switches.fused_lior)
        y = retrieve(q, turned, memory, curvature, switches)
        ran.field = advance(ran.field, y, memory, sizes, step)
        if switches.in_place:
            ran.velocity.add_(q)
        else:
            ran.velocity = ran.velocity.detach() + q.detach()
        ran.lior = ran.lior + lior.mean()
        ran.curvature = ran.curvature + curvature
        ran.speed = ran.speed + speed.mean()
        ran.coordinates.append(q)
        ran.retrieved.append(y)
        if switches.progress_every and (step + 1) % switches.progress_every == 0:
            share = 1 / (step + 1)
            now = (ran.lior * share, ran.curvature * share, ran.speed * share)
            if switches.metrics == "item":
                # three waits for the device, as the document found them
                progress(step, *(value.item() for value in now))
            else:
                ran.history.append(torch.stack(now))
    ran.lior, ran.curvature, ran.speed = (total / sizes.steps for total in (ran.lior, ran.curvature, ran.speed))
    ran.velocity = ran.velocity / sizes.steps
    return ran


def measure_lior(v: Tensor, metric: Tensor, curvature: Tensor, fused: bool) -> tuple[Tensor, Tensor]:
    """dlior = R sqrt(g(v, v) + eps) and the root itself, (B,) each; the document's first form evaluated it twice."""
    speed = quadratic_root(v, metric)
    if fused:
        return curvature * speed, speed
    return curvature * quadratic_root(v, metric), speed


def quadratic_root(v: Tensor, metric: Tensor) -> Tensor:
    """sqrt(g(v, v) + eps) of each token."""
    return torch.sqrt((v.square() * metric).sum(-1) + EPS)


def retrieve(q: Tensor, turned: Tensor | None, memory: Memory, curvature: Tensor, switches: Switches) -> Tensor:
    """y (B, d) for unrotated coordinates; without `turned` the whole bank is rotated again."""
    query = rotate_by_layers(q, memory.theta, memory.layers)
    coords = rotate_by_layers(memory.coords, memory.theta, memory.layers) if turned is None else turned
    states, valid = memory.states, memory.valid
    if switches.bank == "filled":
        coords, states, valid = keep_filled(coords, states, valid)
    if switches.retrieval == "triton":
        from phasewise_studies.lior.kernels.retrieval import retrieve_rows

        count = count_filled(memory) if switches.bank == "bounded" else None
        return retrieve_rows(query, coords, states, valid, memory.metric, curvature, mix=switches.mix, count=count)
    cost = measure_cost(query, coords, valid, memory.metric, curvature)
    if switches.mix != "float32":
        return mix_in(switches.mix, weigh(cost), states)
    return choose_mix(switches.retrieval)(cost, states)


def advance(now: Tensor, y: Tensor, memory: Memory, sizes: Sizes, step: int) -> Tensor:
    """T <- T - i a_t lap T + dt/hbar SOURCE lift(mean y): the explicit Euler step of the document."""
    after = now - 1j * hop(step) * laplacian(now)
    if sizes.feedback:
        after = after + SOURCE_STEP * (memory.lift @ y.mean(0)).view(sizes.inner, sizes.inner)
    return after


def update(memory: Memory, batch: dict[str, Tensor], free: Ran, contrast: Tensor, switches: Switches) -> None:
    """The manual updates at the end of a window, all in place."""
    velocity = rotate_by_layers(free.velocity.mean(0), memory.theta, memory.layers)
    if switches.rotor_update == "loops":
        update_in_loops(memory.metric, memory.theta, velocity, contrast)
    else:
        metric, theta = update_geometry(memory.metric, memory.theta, velocity, contrast, memory.layers)
        memory.metric.copy_(metric)
        memory.theta.copy_(theta)
    write_bank(memory, free.coordinates[-1], free.retrieved[-1], batch["values"])
    relax_field(memory, free.field)


def update_in_loops(metric: Tensor, theta: Tensor, velocity: Tensor, contrast: Tensor) -> None:
    """As the user had it: nested loops over layers and pairs, with a wait for the device at each number."""
    push = ETA_OVER_BETA_NUDGE * contrast.item()
    metric.copy_((metric + push * velocity.square() / velocity.square().sum()).clamp(METRIC_LEAST, METRIC_MOST))
    k = 0
    for layer in list_planes():
        for i, j in layer:
            x, y = velocity[i].item(), velocity[j].item()
            angle = theta[k].item() - ROTOR_RATE * push * math.atan2(y, x) * math.hypot(x, y)
            theta[k] = (angle + math.pi) % (2 * math.pi) - math.pi
            k += 1
