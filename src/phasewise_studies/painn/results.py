"""What a case asks for, of energies, forces and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from phasewise import Shape
from phasewise_studies.painn.motion import leapfrog_of

# of the NVE step: half a femtosecond, as hydrogen asks for
TIME_STEP_FS = 0.5

# positions, velocities, forces, elements, masses of elements, time step -> positions and velocities
Move = Callable[..., tuple[Tensor, Tensor]]


def select_results(
    energy: Tensor,
    forces: Tensor | None,
    placed: Mapping[str, Tensor],
    shape: Shape,
    table: Tensor,
    move: Move = leapfrog_of,
) -> dict[str, Tensor]:
    """What the case asks for."""
    if shape.task == "energy" or forces is None:
        return {"energy": energy}
    if shape.task == "step":
        positions, velocities = move(
            placed["positions"], placed["velocities"], forces, placed["numbers"].int(), table, TIME_STEP_FS
        )
        return {"energy": energy, "forces": forces, "positions": positions, "velocities": velocities}
    return {"energy": energy, "forces": forces}


def describe_list(i: Tensor, r: Tensor, atoms: int) -> dict[str, Tensor]:
    """A list without its order: number of neighbours (A,) int64 and sum of their distances (A,) in A, float64, on the CPU.

    The same edges give the same bits, in whatever order they stand.
    """
    # added in ascending order by one thread: a GPU's atomics would add in another order at each reading
    d, order = r.double().norm(dim=1).sort()
    d, i = d.cpu(), i.long()[order].cpu()
    count = torch.bincount(i, minlength=atoms)
    distance = torch.zeros(atoms, dtype=torch.float64).index_add(0, i, d)
    return {"neighbours": count, "distance": distance}
