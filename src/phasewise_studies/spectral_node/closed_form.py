"""The closed form: every metric of one dimension is flat.

With the arc length s(c) = int sqrt(g) dc, d/dt (sqrt(g) v) = sqrt(g)(v' + Gamma v^2) = 0 along a geodesic. So s(c(t)) is
affine in t, sqrt(g) v is the constant D = s(stop) - s(start), and v0 = D/sqrt(g(start)): no boundary-value problem is left.

The absorbance is integrated over concentration instead of time: dA/dc = f(c, v, A)/v with v = D/sqrt(g(c)), on nodes that
lie evenly between start and stop. No node depends on the metric then, and nothing has to be inverted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from phasewise_studies.spectral_node.chebyshev import chebyshev_nodes, integral_map, value_map
from phasewise_studies.spectral_node.flow import Flow, rate
from phasewise_studies.spectral_node.metric import Parameters, evaluate, take_metric

# nodes at which the network is asked; the check `nodes-resolve` says whether they are enough
NODES = 128
# below this |stop - start| the mean of sqrt(g) is taken by Simpson's rule: two float32 arc lengths that differ by so little
# leave 5e-6 of it and more, up to 5e-4 at 0.001, the rule 2e-7
NEAR = 1 / 16


class Tables(NamedTuple):
    """Rows over an even grid of c in [-1, 1], one for each wavelength: (W, N)."""

    # sqrt(g)
    speed: Tensor
    # s, from c = -1
    arc: Tensor
    # c on an even grid of s in [0, s(1)]
    inverse: Tensor


def speed_at_nodes(metric: Parameters, wavelength: Tensor, count: int) -> Tensor:
    """sqrt(g) at Chebyshev nodes, (W, count)."""
    nodes = chebyshev_nodes(count).to(wavelength.device, wavelength.dtype)
    return evaluate(metric, nodes[None, :], wavelength[:, None]).sqrt()


def make_tables(parameters: Parameters, wavelength: Tensor, count: int, *, nodes: int = NODES) -> Tables:
    """Tables with `count` columns, in float64 on the CPU."""
    metric = take_metric(parameters, dtype=torch.float64, device=torch.device("cpu"))
    speeds = speed_at_nodes(metric, wavelength.double().cpu(), nodes)
    grid = torch.linspace(-1, 1, count, dtype=torch.float64)
    speed, arc = speeds @ value_map(grid, nodes).T, speeds @ integral_map(grid, nodes).T
    # start from the chord; Newton on the cubic through both tables doubles the digits each time
    targets = torch.linspace(0, 1, count, dtype=torch.float64) * arc[:, -1:]
    left = (torch.searchsorted(arc, targets, right=True) - 1).clamp(0, count - 2)
    low, high = arc.gather(1, left), arc.gather(1, left + 1)
    inverse = -1 + 2 / (count - 1) * (left + (targets - low) / (high - low))
    for _ in range(3):
        error = (arc_length(Tables(speed, arc, inverse), inverse.T) - targets.T) / look_up(speed, inverse.T)
        inverse = (inverse - error.T).clamp(-1, 1)
    return Tables(speed, arc, inverse)


def cast(tables: Tables, dtype: torch.dtype, device: torch.device) -> Tables:
    """The same tables elsewhere."""
    return Tables(*(table.to(device, dtype) for table in tables))


def _locate(count: int, c: Tensor) -> tuple[Tensor, Tensor]:
    """Column to the left of c and the part of the cell passed; c outside [-1, 1] counts as the end."""
    # floats as bounds: the ONNX exporter makes an invalid model of integer ones
    position = (c.clamp(-1.0, 1.0) + 1) * ((count - 1) / 2)
    left = position.floor().clamp(max=float(count - 2))
    return left.long(), position - left


def look_up(table: Tensor, c: Tensor) -> Tensor:
    """Linear interpolation in rows: table (W, N), c (..., W) -> (..., W)."""
    rows, count = table.shape
    left, part = _locate(count, c)
    flat = table.reshape(-1)
    at = left + torch.arange(rows, device=c.device) * count
    low = flat[at]
    return low + part * (flat[at + 1] - low)


def arc_length(tables: Tables, c: Tensor) -> Tensor:
    """s(c): the cubic with the values of `arc` and the slopes of `speed` at both ends of a cell; c (..., W)."""
    rows, count = tables.arc.shape
    left, t = _locate(count, c)
    at = left + torch.arange(rows, device=c.device) * count
    arc, speed, width = tables.arc.reshape(-1), tables.speed.reshape(-1), 2 / (count - 1)
    low, rise = arc[at], arc[at + 1] - arc[at]
    first, last = width * speed[at], width * speed[at + 1]
    return low + t * (first + t * (3 * rise - 2 * first - last + t * (first + last - 2 * rise)))


def solve_closed(tables: Tables, start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """v0 and c(1), both (P, W), for start and stop (P, W); c(1) goes through the inverse table, as any c(t) would."""
    begin = arc_length(tables, start)
    distance = arc_length(tables, stop) - begin
    end = (begin + distance) / tables.arc[:, -1]
    return distance / look_up(tables.speed, start), look_up(tables.inverse, 2 * end - 1)


def couple_closed(
    tables: Tables, flow: Flow, start: Tensor, stop: Tensor, a: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """v0 and A(1) by `steps` RK4 steps over concentration."""
    way = stop - start
    first = look_up(tables.speed, start)
    mean = (first + 4 * look_up(tables.speed, 0.5 * (start + stop)) + look_up(tables.speed, stop)) / 6
    far = arc_length(tables, stop) - arc_length(tables, start)
    # arcs end with the table; dc/ds of a transition that stands still is 1/sqrt(g)
    near = (way.abs() < NEAR) | (far == 0)
    distance = torch.where(near, way * mean, far)
    ratio = torch.where(near, 1 / mean, way / torch.where(near, 1.0, far))

    def node(j: int) -> tuple[Tensor, Tensor, Tensor]:
        c = start + way * (j / (2 * steps))
        speed = look_up(tables.speed, c)
        return c, distance / speed, ratio * speed

    a = integrate_over_concentration(flow, [node(j) for j in range(2 * steps + 1)], a)
    return distance / first, a


def integrate_over_concentration(flow: Flow, nodes: list[tuple[Tensor, Tensor, Tensor]], a: Tensor) -> Tensor:
    """A at the end: RK4 on nodes (c, v, dt) at the ends and middles of the steps, dt = dt/dtau for even tau."""
    steps = (len(nodes) - 1) // 2
    h = 1 / steps

    def slope(j: int, value: Tensor) -> Tensor:
        c, v, dt = nodes[j]
        return dt * rate(flow, c, v, value)

    for k in range(steps):
        k1 = slope(2 * k, a)
        k2 = slope(2 * k + 1, a + h / 2 * k1)
        k3 = slope(2 * k + 1, a + h / 2 * k2)
        k4 = slope(2 * k + 2, a + h * k3)
        a = a + h / 6 * (k1 + 2 * (k2 + k3) + k4)
    return a
