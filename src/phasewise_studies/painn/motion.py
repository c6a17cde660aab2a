"""Newton's equations on the device: positions in A, velocities in A/fs, forces in eV/A, masses in dalton, time in fs."""

from __future__ import annotations

from torch import Tensor

from phasewise_studies.painn.data import ACCELERATION


def leapfrog(
    positions: Tensor, velocities: Tensor, forces: Tensor, masses: Tensor, time_step: float
) -> tuple[Tensor, Tensor]:
    """v(t + h/2) = v(t - h/2) + h F/m and x(t + h) = x(t) + h v(t + h/2): one evaluation of forces a step, all in float64."""
    velocities = velocities + forces * (time_step * ACCELERATION) / masses[:, None]
    return positions + time_step * velocities, velocities


def leapfrog_of(
    positions: Tensor, velocities: Tensor, forces: Tensor, numbers: Tensor, table: Tensor, time_step: float
) -> tuple[Tensor, Tensor]:
    """The same for elements with masses in a table: all that a step does, to be compiled into one kernel."""
    return leapfrog(positions, velocities, forces, table.index_select(0, numbers), time_step)


def kinetic_energy(velocities: Tensor, masses: Tensor) -> Tensor:
    """Kinetic energy of each atom in eV, (A,)."""
    return 0.5 / ACCELERATION * masses * (velocities * velocities).sum(1)
