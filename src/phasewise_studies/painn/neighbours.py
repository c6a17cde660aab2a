"""Neighbour lists in plain PyTorch: candidates of every atom side by side, then those that are near, row by row.

Candidates are all atoms of the same system, in every image that may count, or those of the 27 cells around an atom. What is
near is kept either as many as there are (`exact`, which waits for the device) or in a fixed number of places (`capacity`,
which does not, and can stand in a CUDA graph).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from phasewise_studies.painn.inputs import check_shapes, check_values
from phasewise_studies.painn.layout import Atoms, Edges, empty_vector
from phasewise_studies.painn.reference import lattice_images

# room for frames with more neighbours than the one that the capacity was taken from
ROOM = 1.25
# places come in so many
MULTIPLE = 32
# fewer cells than this along a vector, and a cell would be its own neighbour
FEWEST_CELLS = 3
# places of a cell, over what the fullest one of the first frame held
CELL_ROOM = 1.5
# atoms whose neighbours are counted at a time
AT_A_TIME = 4096
ALL = slice(None)


@dataclass(frozen=True)
class ListPlan:
    """Sizes that are fixed on the host before the first step."""

    cutoff: float
    # places for edges
    capacity: int
    # atoms of the largest system
    longest: int
    # lattice vectors beyond the nearest image, (S, 3); one row of zeros where cells or molecules do without
    images: Tensor
    # cells along each lattice vector, and atoms that fit into one; () for all pairs
    grid: tuple[int, ...] = ()
    slots: int = 0
    # the grid on the device: a step must not copy from the host
    counts: Tensor | None = None


@dataclass(frozen=True)
class Candidates:
    """For each atom C possible neighbours: j (A, C), r (A, C, 3) float64 and which of them are there; atoms left out."""

    j: Tensor
    r: Tensor
    there: Tensor
    dropped: Tensor


def plan_list(atoms: Atoms, cutoff: float, *, room: float = ROOM) -> ListPlan:
    """The plan for batches like `atoms`: same systems, same cell, other positions.

    Raises:
        UserError: they are no batch, see `inputs`.
    """
    check_shapes(atoms)
    check_values(atoms)
    longest = int((atoms.start[1:] - atoms.start[:-1]).max())
    zeros = torch.zeros(1, 3, dtype=torch.float64, device=atoms.positions.device)
    images, grid, slots, counts = zeros, (), 0, None
    if atoms.cell is not None:
        heights = 1 / torch.linalg.inv(atoms.cell[0]).norm(dim=0)
        cells = tuple((heights / cutoff).floor().int().tolist())
        if atoms.cell.shape[0] == 1 and min(cells) >= FEWEST_CELLS:
            grid = cells
            counts = torch.tensor(grid, device=atoms.positions.device)
            slots = 1 + int(CELL_ROOM * int(torch.bincount(cell_of(atoms, counts)[0]).max()))
        else:
            images = max((lattice_images(cell, cutoff, cell) for cell in atoms.cell), key=len).double()
    plan = ListPlan(cutoff, 0, longest, images, grid, slots, counts)
    # a round number, so that frames of a like size share compiled kernels
    capacity = -(-int(count_edges(atoms, plan) * room + 1) // MULTIPLE) * MULTIPLE
    return replace(plan, capacity=capacity)


def count_edges(atoms: Atoms, plan: ListPlan) -> int:
    """Number of edges now, counted some atoms at a time: a plan must not take more memory than a step."""
    count = atoms.positions.shape[0]
    parts = [slice(at, at + AT_A_TIME) for at in range(0, count, AT_A_TIME)]
    return sum(int(near(candidates(atoms, plan, part), plan.cutoff).sum()) for part in parts)


def candidates(atoms: Atoms, plan: ListPlan, rows: slice = ALL) -> Candidates:
    """Possible neighbours of each atom, or of a run of atoms."""
    return in_cells(atoms, plan, rows) if plan.grid else in_systems(atoms, plan, rows)


def near(found: Candidates, cutoff: float) -> Tensor:
    """Which candidates are neighbours, (A, C)."""
    return found.there & ((found.r * found.r).sum(-1) < cutoff * cutoff)


def in_systems(atoms: Atoms, plan: ListPlan, rows: slice = ALL) -> Candidates:
    """All atoms of the same system, in the nearest image and those around it."""
    device = atoms.positions.device
    mine = torch.arange(atoms.positions.shape[0], device=device)[rows]
    count, system = mine.shape[0], atoms.system[rows].long()
    first = atoms.start.index_select(0, system).long()
    size = atoms.start.index_select(0, system + 1).long() - first
    k = torch.arange(plan.longest, device=device)
    there = k < size[:, None]
    j = torch.where(there, first[:, None] + k, 0)
    r = atoms.positions.index_select(0, j.flatten()).view(count, -1, 3) - atoms.positions[rows, None]
    itself = j == mine[:, None]
    if atoms.cell is None:
        return Candidates(j, r, there & ~itself, torch.zeros((), dtype=torch.int32, device=device))
    cell = atoms.cell.index_select(0, system)
    nearest = torch.round(r @ invert(atoms.cell).index_select(0, system))
    shift = plan.images - nearest[:, :, None]
    r = (r[:, :, None] + shift @ cell[:, None]).view(count, -1, 3)
    images = plan.images.shape[0]
    there = there[:, :, None] & ~(itself[:, :, None] & (shift == 0).all(-1))
    j = j[:, :, None].expand(-1, -1, images).reshape(count, -1)
    return Candidates(j, r, there.view(count, -1), torch.zeros((), dtype=torch.int32, device=device))


def invert(cell: Tensor) -> Tensor:
    """Inverse of 3 x 3 matrices (B, 3, 3) by cross products: LAPACK's waits for the device."""
    a, b, c = cell.unbind(1)
    columns = torch.stack((torch.linalg.cross(b, c), torch.linalg.cross(c, a), torch.linalg.cross(a, b)), dim=2)
    return columns / (a * torch.linalg.cross(b, c)).sum(1)[:, None, None]


def cell_of(atoms: Atoms, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Cell number of each atom (A,), and its fractional coordinates inside the box (A, 3)."""
    assert atoms.cell is not None, "only a box has cells"
    fraction = atoms.positions @ invert(atoms.cell)[0]
    fraction = fraction - torch.floor(fraction)
    # a fraction just below 0 rounds up to 1
    # NaN is near nobody, in whichever cell
    x, y, z = torch.minimum((fraction * counts).nan_to_num(0.0).long(), counts - 1).unbind(1)
    return (x * counts[1] + y) * counts[2] + z, fraction


def in_cells(atoms: Atoms, plan: ListPlan, rows: slice = ALL) -> Candidates:
    """Atoms of the 27 cells around each atom of one box."""
    assert atoms.cell is not None and plan.counts is not None, "only a box has cells"
    counts = plan.counts
    (n_x, n_y, n_z), slots, device = plan.grid, plan.slots, atoms.positions.device
    cells, count = n_x * n_y * n_z, atoms.positions.shape[0]
    number, fraction = cell_of(atoms, counts)
    order = torch.argsort(number, stable=True)
    ordered = number.index_select(0, order)
    begin = torch.searchsorted(ordered, torch.arange(cells + 1, device=device))
    rank = torch.arange(count, device=device) - begin.index_select(0, ordered)
    fits = rank < slots
    # one place more than there is, where what does not fit is put
    table = torch.full((cells * slots + 1,), -1, dtype=torch.int64, device=device)
    table.scatter_(0, torch.where(fits, ordered * slots + rank, cells * slots), torch.where(fits, order, -1))
    table[-1:].fill_(-1)
    step = torch.cartesian_prod(*(torch.arange(-1, 2, device=device),) * 3)
    number = number[rows]
    home = torch.stack((number // (n_y * n_z), number // n_z % n_y, number % n_z), dim=1)
    there = home[:, None] + step
    shift = torch.div(there, counts, rounding_mode="floor")
    wrapped = there - shift * counts
    around = (wrapped[..., 0] * n_y + wrapped[..., 1]) * n_z + wrapped[..., 2]
    j = table[: cells * slots].view(cells, slots).index_select(0, around.flatten()).view(-1, 27 * slots)
    inside = fraction @ atoms.cell[0]
    here = j >= 0
    j = torch.where(here, j, 0)
    offset = (shift.double() @ atoms.cell[0])[:, :, None].expand(-1, -1, slots, -1).reshape(*j.shape, 3)
    r = inside.index_select(0, j.flatten()).view(*j.shape, 3) + offset - inside[rows, None]
    # an image of the atom itself is 3 cells away at least: only the atom has r = 0
    here = here & (j != torch.arange(count, device=device)[rows, None])
    return Candidates(j, r, here, (~fits).sum(dtype=torch.int32))


def exact(atoms: Atoms, plan: ListPlan) -> Edges:
    """As many places as there are edges; asks the device how many."""
    found = candidates(atoms, plan)
    i, c = torch.nonzero(near(found, plan.cutoff), as_tuple=True)
    ends = torch.searchsorted(i, torch.arange(atoms.positions.shape[0] + 1, device=i.device))
    return Edges(ends.int(), i.int(), found.j[i, c].int(), found.r[i, c].float(), None, found.dropped)


def in_places(atoms: Atoms, plan: ListPlan) -> Edges:
    """`plan.capacity` places; nothing waits for the device."""
    found = candidates(atoms, plan)
    here = near(found, plan.cutoff)
    count, device = atoms.positions.shape[0], here.device
    end = here.sum(1).cumsum(0)
    row_ptr = torch.nn.functional.pad(end, (1, 0))
    place = row_ptr[:-1, None] + here.cumsum(1) - 1
    place = torch.where(here & (place < plan.capacity), place, plan.capacity).flatten()
    a = torch.arange(count, device=device)[:, None].expand_as(here)

    def fill(values: Tensor, empty: Tensor) -> Tensor:
        # the last place takes what is no edge, and is cut off
        room = empty.to(values.dtype).expand(plan.capacity + 1, *values.shape[1:]).clone()
        index = place if values.dim() == 1 else place[:, None].expand_as(values)
        return room.scatter_(0, index, values)[: plan.capacity]

    zero = torch.zeros((), device=device)
    far = here.new_zeros(3, dtype=torch.float32)
    far[:1].fill_(empty_vector(plan.cutoff)[0])
    return Edges(
        row_ptr=row_ptr.clamp(max=plan.capacity).int(),
        i=fill(a.flatten().int(), zero),
        j=fill(found.j.flatten().int(), zero),
        r=fill(found.r.view(-1, 3).float(), far),
        reverse=None,
        overflow=((end[-1:].sum() - plan.capacity).clamp(min=0) + found.dropped).int(),
    )
