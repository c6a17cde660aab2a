"""The trainer in float64, in plain loops over phases, steps, planes and tokens: slow, and nothing in it to get wrong.

It shares only constants with the other engines. One window, starting from the field T, for each phase:

    R_t = mean |T|;  q = q0 + W_p Re(mean_xy T) + sign kappa (q* - q_free,t);  v = q
    spd = sqrt(sum_i g_i v_i^2 + eps);  dlior = R_t spd
    cost_j = R_t sqrt(sum_i g_i (G C_j - G q)_i^2 + eps);  w = softmax(-beta cost) over valid rows;  y = w S
    T <- T + dt/(i hbar) (-(1 - w_t) H T / hbar + J),  H = -hbar^2/(2m) lap,  J = i SOURCE lift(mean_b y) or 0
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.lior.data import BATCH, MAPS, STATE, name_report
from phasewise_studies.lior.window import (
    BETA,
    BLEND,
    DT,
    EPS,
    ETA_OVER_BETA_NUDGE,
    HBAR,
    LAMBDA_F,
    MASS,
    METRIC_LEAST,
    METRIC_MOST,
    NUDGE_SCALE,
    ROTOR_RATE,
    SOURCE,
    Sizes,
    list_planes,
    memory_weight,
    read_sizes,
)


@dataclass
class Phase:
    """What one phase of a window leaves."""

    field: Tensor
    # (S,), (S, B, n), (S, B, d)
    curvature: Tensor
    coordinates: Tensor
    retrieved: Tensor
    lior: Tensor
    speed: Tensor


def laplacian(field: Tensor) -> Tensor:
    """Five-point Laplacian of the first two axes, periodic, grid spacing one."""
    around = field.roll(1, 0) + field.roll(-1, 0) + field.roll(1, 1) + field.roll(-1, 1)
    return around - 4 * field


def rotate(points: Tensor, theta: Tensor) -> Tensor:
    """Givens rotations of the last axis, plane by plane."""
    points = points.clone()
    k = 0
    for layer in list_planes():
        for i, j in layer:
            cos, sin = math.cos(float(theta[k])), math.sin(float(theta[k]))
            x, y = points[..., i].clone(), points[..., j].clone()
            points[..., i] = cos * x - sin * y
            points[..., j] = sin * x + cos * y
            k += 1
    return points


def retrieve(
    query: Tensor, coords: Tensor, states: Tensor, valid: Tensor, metric: Tensor, curvature: float
) -> tuple[Tensor, Tensor]:
    """Weights (B, K) and mix (B, d) of the rows for rotated queries (B, n) and rotated rows (K, n)."""
    weights = []
    for token in query:
        distance = torch.sqrt(((coords - token) ** 2 * metric).sum(1) + EPS)
        score = -BETA * curvature * distance
        score[~valid] = -math.inf
        weights.append(torch.softmax(score, 0))
    mixed = torch.stack(weights)
    return mixed, mixed @ states


def run_phase(
    state: Mapping[str, Tensor],
    maps: Mapping[str, Tensor],
    batch: Mapping[str, Tensor],
    sizes: Sizes,
    sign: float,
    free: Tensor | None,
) -> Phase:
    """One phase of S steps; `free` holds the coordinates of the free phase at every step, (S, B, n)."""
    field = torch.view_as_complex(state["field"].clone())
    metric, theta, valid = state["metric"], state["theta"], state["bank_valid"].bool()
    coords = rotate(state["bank_coords"], theta)
    found = Phase(field, *(torch.empty(0),) * 5)
    curvatures, coordinates, retrieved, liors, speeds = [], [], [], [], []
    for step in range(sizes.steps):
        curvature = float(field.abs().mean())
        mean = field.mean((0, 1)).real.flatten()
        q = batch["tokens"] + maps["projection"] @ mean
        if free is not None:
            q = q + sign * NUDGE_SCALE * (batch["targets"] - free[step])
        speed = torch.sqrt((q**2 * metric).sum(1) + EPS)
        _, y = retrieve(rotate(q, theta), coords, state["bank_states"], valid, metric, curvature)
        energy = -(HBAR**2) / (2 * MASS) * laplacian(field)
        change = -(1 - memory_weight(step)) * energy / HBAR
        if sizes.feedback:
            change = change + 1j * SOURCE * (maps["lift"] @ y.mean(0)).reshape(sizes.inner, sizes.inner)
        field = field + DT / (1j * HBAR) * change
        curvatures.append(curvature)
        coordinates.append(q)
        retrieved.append(y)
        liors.append(curvature * speed.mean())
        speeds.append(speed.mean())
    found.field = field
    found.curvature = torch.tensor(curvatures, dtype=torch.float64)
    found.coordinates, found.retrieved = torch.stack(coordinates), torch.stack(retrieved)
    found.lior, found.speed = torch.stack(liors), torch.stack(speeds)
    return found


def run_window(
    state: dict[str, Tensor], maps: Mapping[str, Tensor], batch: Mapping[str, Tensor], sizes: Sizes
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """One window: what it reports, and the state after it."""
    free = run_phase(state, maps, batch, sizes, 0.0, None)
    phases = [free] + [run_phase(state, maps, batch, sizes, sign, free.coordinates) for sign in sizes.signs[1:]]
    lior = torch.stack([phase.lior.mean() for phase in phases])
    report = {
        "lior": lior,
        "curvature": torch.stack([phase.curvature.mean() for phase in phases]),
        "speed": torch.stack([phase.speed.mean() for phase in phases]),
        "retrieved": torch.stack([phase.retrieved for phase in phases]),
    }
    contrast = float((lior[1] - lior[2]) / 2 if sizes.symmetric else lior[1] - lior[0])
    return report, update(state, maps, batch, sizes, free, contrast)


def update(
    state: dict[str, Tensor],
    maps: Mapping[str, Tensor],
    batch: Mapping[str, Tensor],
    sizes: Sizes,
    free: Phase,
    contrast: float,
) -> dict[str, Tensor]:
    """Metric, angles, bank and field after a window."""
    after = {name: tensor.clone() for name, tensor in state.items()}
    velocity = rotate(free.coordinates.mean((0, 1)), state["theta"])
    push = ETA_OVER_BETA_NUDGE * contrast
    for i in range(len(velocity)):
        value = float(state["metric"][i]) + push * float(velocity[i] ** 2 / (velocity**2).sum())
        after["metric"][i] = min(max(value, METRIC_LEAST), METRIC_MOST)
    k = 0
    for layer in list_planes():
        for i, j in layer:
            x, y = float(velocity[i]), float(velocity[j])
            angle = float(state["theta"][k]) - ROTOR_RATE * push * math.atan2(y, x) * math.hypot(x, y)
            after["theta"][k] = (angle + math.pi) % (2 * math.pi) - math.pi
            k += 1
    for token in range(sizes.batch):
        row = (int(state["cursor"]) + token) % sizes.bank
        after["bank_coords"][row] = free.coordinates[-1, token]
        after["bank_states"][row] = BLEND * batch["values"][token] + (1 - BLEND) * free.retrieved[-1, token]
        after["bank_valid"][row] = 1
    after["cursor"] = (state["cursor"] + sizes.batch) % sizes.bank
    # the field relaxes towards its rest: explicit Euler grows by 1.011 a window, and would not last a thousand of them
    after["field"] = torch.view_as_real(free.field + LAMBDA_F * (torch.view_as_complex(maps["rest"]) - free.field))
    return after


def closed_form_field(field: Tensor, steps: int) -> Tensor:
    """The open field after `steps` steps: IFFT(prod_t (1 - i a_t Lambda) FFT(T)), Lambda the Laplacian's symbol.

    `field` is complex128 (X, Y, ...). Shares nothing with the stencil.
    """
    x, y = field.shape[:2]
    symbol = (2 * torch.cos(2 * math.pi * torch.arange(x, dtype=torch.float64) / x) - 2)[:, None] + (
        2 * torch.cos(2 * math.pi * torch.arange(y, dtype=torch.float64) / y) - 2
    )
    factor = torch.ones_like(symbol, dtype=torch.complex128)
    for step in range(steps):
        factor = factor * (1 - 1j * (1 - memory_weight(step)) * DT / (2 * MASS) * symbol)
    factor = factor.reshape(x, y, *(1,) * (field.dim() - 2))
    return torch.fft.ifft2(torch.fft.fft2(field, dim=(0, 1)) * factor, dim=(0, 1))


def reference(inputs: Mapping[str, Tensor], case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """The window in float64, in plain loops."""
    sizes = read_sizes(shape)
    maps = {name: inputs[name] for name in MAPS}
    held = {name: inputs[name].clone() for name in STATE}

    def step(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        report, after = run_window(held, maps, batch, sizes)
        held.update(after)
        return report

    return Program(
        step=step,
        place=lambda batch: {name: batch[name].clone() for name in BATCH},
        load=lambda tensors: held.update({name: tensor.clone() for name, tensor in tensors.items()}),
        state=lambda: held,
        outputs=name_report,
    )
