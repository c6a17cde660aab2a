"""Molecular dynamics wholly on the device: list, forces and integration in one CUDA graph, energies read at the end only.

Velocity Verlet in float64: v += h/2 F/m, x += h v, F = F(x), v += h/2 F/m. Positions in A, velocities in A/fs, time in fs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise.kit.graphs import capture
from phasewise_studies.painn.data import ACCELERATION
from phasewise_studies.painn.engine import Engine
from phasewise_studies.painn.layout import Atoms
from phasewise_studies.painn.motion import kinetic_energy

# steps of one graph: its launch and the copies around it are shared by so many
STEPS_A_GRAPH = 10

State = dict[str, Tensor]


@dataclass(frozen=True)
class Trajectory:
    """Energies in eV over time, (frames, B) each on the CPU, and where it ended. `times` are in fs."""

    times: Tensor
    potential: Tensor
    kinetic: Tensor
    positions: Tensor
    velocities: Tensor
    # why no graph was used; "" if one was
    reason: str = ""

    @property
    def total(self) -> Tensor:
        return self.potential + self.kinetic


def run_nve(
    engine: Engine, atoms: Atoms, velocities: Tensor, masses: Tensor, *, steps: int, time_step: float,
    stride: int = STEPS_A_GRAPH,
) -> Trajectory:  # fmt: skip
    """`steps` steps (a multiple of `stride`) with a frame of energies after every `stride`.

    Args:
        engine: made for systems like `atoms`; its energies are NaN if a list overflows, and so is all that follows.
        velocities: (A, 3) float64 in A/fs. masses: (A,) float64 in dalton.
    """
    assert steps % stride == 0, "energies are read after whole strides"
    device, systems = atoms.positions.device, atoms.start.shape[0] - 1

    def advance(state: State) -> State:
        positions, v, forces = state["positions"], state["velocities"], state["forces"]
        kick = 0.5 * time_step * ACCELERATION / masses[:, None]
        energy = forces.new_zeros(systems)
        for _ in range(stride):
            v = v + kick * forces
            positions = positions + time_step * v
            result = engine.evaluate(replace(atoms, positions=positions))
            assert result.forces is not None, "an engine without forces moves nothing"
            energy, forces = result.energy, result.forces
            v = v + kick * forces
        kinetic = torch.zeros_like(energy).index_add(0, atoms.system, kinetic_energy(v, masses))
        return {"positions": positions, "velocities": v, "forces": forces, "potential": energy, "kinetic": kinetic}

    first = engine.evaluate(atoms)
    assert first.forces is not None, "an engine without forces moves nothing"
    start = {"positions": atoms.positions, "velocities": velocities, "forces": first.forces}
    call, reason = advance, "no graph on a CPU"
    if device.type == "cuda":
        captured = capture(advance, start)
        call, reason = captured.call, captured.reason
    potential, kinetic, state = [], [], start
    for _ in range(steps // stride):
        state = call({name: state[name] for name in start})
        # the graph writes to the same place at every call
        potential.append(state["potential"].clone())
        kinetic.append(state["kinetic"].clone())
    times = time_step * stride * torch.arange(1, steps // stride + 1, dtype=torch.float64)
    return Trajectory(
        times, torch.stack(potential).cpu(), torch.stack(kinetic).cpu(), state["positions"].clone(),
        state["velocities"].clone(), reason,
    )  # fmt: skip


@dataclass(frozen=True)
class Drift:
    """Straight lines through the total energies of all replicas."""

    # meV/atom/ns, mean over the replicas and its standard error (NaN with one replica, which has none)
    slope: float
    error: float
    # change over the whole run over the spread of the kinetic energy: below 1 it drowns in the motion
    over_std: float
    # spread of the total energy around its line, eV
    spread: float


def fit_drift(found: Trajectory, atoms_each: int) -> Drift:
    """The drift of a run whose systems have `atoms_each` atoms."""
    t = (found.times - found.times.mean())[:, None]
    total = found.total
    centred = total - total.mean(0)
    slopes = (t * centred).sum(0) / (t * t).sum()
    residual = centred - slopes * t
    span = float(found.times[-1] - found.times[0])
    count = slopes.numel()
    # eV/fs a system -> meV/ns an atom
    scale = 1e3 * 1e6 / atoms_each
    return Drift(
        slope=float(slopes.mean()) * scale,
        error=float(slopes.std()) / count**0.5 * scale if count > 1 else math.nan,
        over_std=float((slopes.abs() * span / found.kinetic.std(0)).mean()),
        spread=float(residual.std(0).mean()),
    )
