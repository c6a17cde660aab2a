"""PaiNN as its equations stand (Schuett, Unke, Gastegger, arXiv:2102.03150; schnetpack's `representation/painn.py`), no cleverness.

Every function takes whatever floating dtype its tensors have; the reference is run in float64.
Forces are -dE/dR by autograd. The hand-derived form of the same forces is in `adjoint.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import linear, silu
from torch.utils.checkpoint import checkpoint

from phasewise import Program, Shape
from phasewise_studies.painn.data import as_atoms, mass_table
from phasewise_studies.painn.layout import Atoms, Edges, Sizes, Weights
from phasewise_studies.painn.results import describe_list, select_results
from phasewise_studies.painn.weights import choose_weights

# rows of a tensor by index
Take = Callable[[Tensor, Tensor], Tensor]
# edges whose float64 intermediates are held at a time: 2 GB
PIECE = 1 << 15


def reference(inputs: Mapping[str, Tensor], case: str, shape: Shape, items: Tensor | None = None) -> Program:
    """Brute-force neighbours, float64, forces by autograd; on a GPU where there is one, since a box is much for a CPU."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weights, sizes = choose_weights(shape.features)
    weights = {name: tensor.to(device) for name, tensor in weights.items()}

    def step(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        here = {name: tensor.to(device) for name, tensor in batch.items()}
        atoms = as_atoms(here)
        i, j, shift = find_neighbours(atoms, sizes.cutoff)
        if shape.task == "list":
            return describe_list(i, edge_vectors(atoms, i, j, shift), len(atoms.numbers))
        piece = None if len(i) <= PIECE else PIECE
        energy, forces = energy_and_forces(atoms, i, j, shift, weights, sizes, piece)
        found = select_results(energy, forces, here, shape, mass_table(device))
        found = {name: value.cpu() for name, value in found.items()}
        if device.type == "cuda":
            torch.cuda.empty_cache()
        return found

    return Program(step=step)


def radial_functions(d: Tensor, sizes: Sizes) -> Tensor:
    """phi(d) of shape (E, K): Gaussians on a grid from 0 to the cutoff, or sin(n pi d / cutoff) / d."""
    if sizes.basis == "gaussian":
        centres, width = gaussian_grid(sizes, d)
        return torch.exp(-0.5 * ((d[:, None] - centres) / width) ** 2)
    n = torch.arange(1, sizes.radial + 1, dtype=d.dtype, device=d.device)
    return torch.sin(n * (torch.pi / sizes.cutoff) * d[:, None]) / d[:, None]


def gaussian_grid(sizes: Sizes, like: Tensor) -> tuple[Tensor, float]:
    """Centres (K,) of the Gaussians and their common width, which is the spacing."""
    centres = torch.linspace(0.0, sizes.cutoff, sizes.radial, dtype=like.dtype, device=like.device)
    return centres, sizes.cutoff / (sizes.radial - 1)


def cutoff_function(d: Tensor, cutoff: float) -> Tensor:
    """f(d) = (cos(pi d / cutoff) + 1) / 2 below the cutoff, 0 from there on; (E,)."""
    return 0.5 * (torch.cos(d * (torch.pi / cutoff)) + 1) * (d < cutoff)


def filters(d: Tensor, weights: Weights, sizes: Sizes, layer: int | None = None) -> Tensor:
    """W(d) = (phi(d) Wf + bf) f(d): the cutoff comes after the bias, so W vanishes smoothly; (E, L * 3F), or (E, 3F) of one layer."""
    rows = slice(None) if layer is None else slice(3 * sizes.features * layer, 3 * sizes.features * (layer + 1))
    phi = radial_functions(d, sizes)
    w = linear(phi, weights["filter.weight"][rows], weights["filter.bias"][rows])
    return w * cutoff_function(d, sizes.cutoff)[:, None]


def by_index(values: Tensor, index: Tensor) -> Tensor:
    """Rows of `values`."""
    return values[index]


def message(
    q: Tensor,
    mu: Tensor,
    w: Tensor,
    u: Tensor,
    i: Tensor,
    j: Tensor,
    weights: Weights,
    layer: int,
    take: Take = by_index,
) -> tuple[Tensor, Tensor]:
    """q_i += sum_j m_q and mu_i += sum_j (u_ij m_R + mu_j m_mu), with (m_q, m_R, m_mu) = W_ij x_j.

    Args:
        q, mu: (A, F) and (A, 3, F).
        w, u: filters of this layer (E, 3F) and unit vectors (E, 3).
        i, j: receivers and neighbours, (E,) int64.
        take: how rows of neighbours are gathered.
    """
    name = f"message.{layer}"
    x = dense(silu(dense(q, weights, f"{name}.1")), weights, f"{name}.2")
    m_q, m_r, m_mu = (w * take(x, j)).chunk(3, dim=1)
    vector = u[:, :, None] * m_r[:, None, :] + take(mu, j) * m_mu[:, None, :]
    return q.index_add(0, i, m_q), mu.index_add(0, i, vector)


def update(q: Tensor, mu: Tensor, weights: Weights, layer: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """q += a + c <V, U> and mu += b U, with (V, U) = mu C and (a, b, c) from q and |V|."""
    name = f"update.{layer}"
    v, u = linear(mu, weights[f"{name}.mix.weight"]).chunk(2, dim=-1)
    norm = torch.sqrt((v**2).sum(1) + epsilon)
    hidden = silu(dense(torch.cat((q, norm), dim=1), weights, f"{name}.1"))
    a, b, c = dense(hidden, weights, f"{name}.2").chunk(3, dim=1)
    return q + a + c * (v * u).sum(1), mu + b[:, None, :] * u


def readout(q: Tensor, weights: Weights) -> Tensor:
    """Energy of each atom, (A,), without its reference energy."""
    return dense(silu(dense(q, weights, "readout.1")), weights, "readout.2")[:, 0]


def dense(x: Tensor, weights: Weights, name: str) -> Tensor:
    """x W^T + b."""
    return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def atom_energies(
    numbers: Tensor, r: Tensor, i: Tensor, j: Tensor, weights: Weights, sizes: Sizes, take: Take = by_index
) -> Tensor:
    """Energy of each atom (A,), without reference energies, from edge vectors r (E, 3); differentiable in r."""
    # an edge at exactly d = 0 would have no direction; the list never holds one
    d = r.norm(dim=1)
    u = r / d[:, None]
    w = filters(d, weights, sizes).chunk(sizes.layers, dim=1)
    q = weights["embedding"][numbers.long()]
    mu = q.new_zeros(q.shape[0], 3, sizes.features)
    for layer in range(sizes.layers):
        q, mu = message(q, mu, w[layer], u, i, j, weights, layer, take)
        q, mu = update(q, mu, weights, layer, sizes.epsilon)
    return readout(q, weights)


def atom_energies_in_pieces(
    numbers: Tensor, r: Tensor, i: Tensor, j: Tensor, weights: Weights, sizes: Sizes, piece: int
) -> Tensor:
    """The same energies with the intermediates of `piece` edges at a time: backward computes them again."""
    q = weights["embedding"][numbers.long()]
    mu = q.new_zeros(q.shape[0], 3, sizes.features)
    for layer in range(sizes.layers):
        gained_q, gained_mu = q, mu
        for at in range(0, i.shape[0], piece):
            part = slice(at, at + piece)
            more_q, more_mu = checkpoint(
                _messages_of, q, mu, r[part], i[part], j[part], weights, sizes, layer, use_reentrant=False
            )
            gained_q, gained_mu = gained_q + more_q, gained_mu + more_mu
        q, mu = update(gained_q, gained_mu, weights, layer, sizes.epsilon)
    return readout(q, weights)


def _messages_of(
    q: Tensor, mu: Tensor, r: Tensor, i: Tensor, j: Tensor, weights: Weights, sizes: Sizes, layer: int
) -> tuple[Tensor, Tensor]:
    d = r.norm(dim=1)
    w = filters(d, weights, sizes, layer)
    more_q, more_mu = message(q, mu, w, r / d[:, None], i, j, weights, layer)
    return more_q - q, more_mu - mu


def edge_vectors(atoms: Atoms, i: Tensor, j: Tensor, shift: Tensor | None) -> Tensor:
    """r_ij = R_j + S_ij . cell - R_i, (E, 3) float64; `shift` (E, 3) are whole lattice vectors."""
    r = atoms.positions[j] - atoms.positions[i]
    if shift is None or atoms.cell is None:
        return r
    return r + torch.einsum("es,esx->ex", shift.to(r.dtype), atoms.cell[atoms.system[i].long()])


def sum_systems(values: Tensor, system: Tensor, systems: int) -> Tensor:
    """Sum of a value of each atom over the atoms of each system, in float64; (B,)."""
    total = torch.zeros(systems, dtype=torch.float64, device=values.device)
    return total.index_add(0, system.long(), values.double())


def energy_and_forces(
    atoms: Atoms, i: Tensor, j: Tensor, shift: Tensor | None, weights: Weights, sizes: Sizes, piece: int | None = None
) -> tuple[Tensor, Tensor]:
    """Energies (B,) in eV and forces (A, 3) in eV/A by autograd, in the dtype of the weights.

    `piece` bounds the edges whose intermediates are in memory at a time.
    """
    positions = atoms.positions.detach().requires_grad_()
    r = edge_vectors(replace(atoms, positions=positions), i, j, shift).to(weights["embedding"].dtype)
    if piece is None:
        per_atom = atom_energies(atoms.numbers, r, i, j, weights, sizes)
    else:
        per_atom = atom_energies_in_pieces(atoms.numbers, r, i, j, weights, sizes, piece)
    (gradient,) = torch.autograd.grad(per_atom.sum(), positions)
    per_atom = per_atom.detach().double() + weights["atomref"].double()[atoms.numbers.long()]
    return sum_systems(per_atom, atoms.system, atoms.start.shape[0] - 1), -gradient


def find_neighbours(atoms: Atoms, cutoff: float, most: int = 1 << 22) -> tuple[Tensor, Tensor, Tensor | None]:
    """All pairs with d < cutoff by brute force, ordered by receiver: i, j (E,) int64 and shift (E, 3) int64 or None.

    One system after the other, `most` candidates at a time. Atoms may stand outside the cell.
    """
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    starts = atoms.start.tolist()
    for b, (first, last) in enumerate(itertools.pairwise(starts)):
        positions = atoms.positions[first:last]
        cell = None if atoms.cell is None else atoms.cell[b]
        images = lattice_images(cell, cutoff, positions)
        rows = max(1, most // max(1, len(positions) * len(images)))
        for row in range(0, len(positions), rows):
            i, j, shift = _pairs(positions[row : row + rows], positions, cell, images, cutoff)
            found.append((i + first + row, j + first, shift))
    i, j, shift = (torch.cat(parts) for parts in zip(*found, strict=True))
    return i, j, None if atoms.cell is None else shift


def _pairs(some: Tensor, positions: Tensor, cell: Tensor | None, images: Tensor, cutoff: float) -> tuple:
    """Pairs of `some` atoms with all atoms of a system in all images."""
    r = positions[None, :] - some[:, None]
    shift = torch.zeros_like(r)
    if cell is not None:
        # the nearest image by each lattice vector for itself; `images` go on from there
        shift = -torch.round(r @ torch.linalg.inv(cell))
    shift = shift[:, :, None] + images.to(r.dtype)
    r = r[:, :, None] + (shift @ cell if cell is not None else shift)
    d2 = (r**2).sum(-1)
    i, j, s = torch.nonzero((d2 < cutoff**2) & (d2 > 0), as_tuple=True)
    return i, j, shift[i, j, s].long()


def lattice_images(cell: Tensor | None, cutoff: float, like: Tensor) -> Tensor:
    """Whole lattice vectors that may bring a neighbour near once the nearest image was taken, (S, 3) int64."""
    if cell is None:
        return torch.zeros(1, 3, dtype=torch.int64, device=like.device)
    # distance between opposite faces = 1 / |column of the inverse|; |fraction| <= 1/2 after the nearest image
    reach = torch.floor(cutoff * torch.linalg.inv(cell).norm(dim=0) + 0.5).long().tolist()
    return torch.cartesian_prod(*(torch.arange(-n, n + 1, device=like.device) for n in reach))


def as_edges(atoms: Atoms, i: Tensor, j: Tensor, shift: Tensor | None) -> Edges:
    """The list of `find_neighbours` in the layout of the kernels."""
    r = edge_vectors(atoms, i, j, shift)
    count = torch.bincount(i, minlength=atoms.positions.shape[0])
    row_ptr = torch.nn.functional.pad(count.cumsum(0), (1, 0))
    return Edges(
        row_ptr=row_ptr.int(),
        i=i.int(),
        j=j.int(),
        r=r.float(),
        reverse=reverse_places(i, j, shift).int(),
        overflow=torch.zeros((), dtype=torch.int32, device=i.device),
    )


def reverse_places(i: Tensor, j: Tensor, shift: Tensor | None) -> Tensor:
    """Place of the opposite edge of each edge, (E,) int64."""
    none = torch.zeros(i.shape[0], 3, dtype=torch.int64, device=i.device) if shift is None else shift
    there = torch.cat((i[:, None], j[:, None], none), dim=1)
    back = torch.cat((j[:, None], i[:, None], -none), dim=1)
    _, label = torch.unique(torch.cat((there, back)), dim=0, return_inverse=True)
    forward, backward = label.split(i.shape[0])
    # label of an edge -> its place; all labels occur in both halves, since the list is symmetric
    at = torch.empty(i.shape[0], dtype=torch.int64, device=i.device)
    at[forward] = torch.arange(i.shape[0], device=i.device)
    return at[backward]
