"""What the kernels of painn are held to, at any size and on any device: errors against float64, repeated bits, same lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise

import torch
from torch import Tensor

from phasewise_studies.painn import reference
from phasewise_studies.painn.kernels import (
    adjoint,
    adjoint_tiles,
    cells,
    dense,
    forces,
    lists,
    message,
    message_tiles,
    molecules,
    prune,
    radial,
    readout,
    split,
    table,
    update,
    update_adjoint,
)
from phasewise_studies.painn.kernels.boxes import Box
from phasewise_studies.painn.layout import Atoms, Edges, Sizes

CUTOFF = 5.0
Found = dict[str, float | bool]
# what a kernel takes for a weight
Form = Callable[[Tensor], Tensor]


def draw_batch(counts: list[int], device: str = "cpu", apart: float = 100.0, seed: int = 0) -> Atoms:
    """Random molecules of about 0.05 atoms per cubic Angstrom, no two atoms of one closer than about 0.6 A."""
    generator = torch.Generator().manual_seed(seed)
    positions = []
    for count in counts:
        side = max(1, round((count * 1.5) ** (1 / 3) + 0.5))
        grid = torch.cartesian_prod(*(torch.arange(side, dtype=torch.float64),) * 3)
        place = torch.randperm(side**3, generator=generator)[:count]
        jitter = torch.rand(count, 3, dtype=torch.float64, generator=generator)
        positions.append(
            2.4 * grid[place] + 1.5 * jitter + apart * torch.randn(3, dtype=torch.float64, generator=generator)
        )
    start = torch.nn.functional.pad(torch.tensor(counts).cumsum(0), (1, 0)).int()
    system = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).int()
    numbers = torch.ones(sum(counts), dtype=torch.int32)
    return Atoms(torch.cat(positions).to(device), numbers.to(device), system.to(device), start.to(device))


def draw_box(count: int, cell: Tensor, device: str = "cpu", seed: int = 0) -> Atoms:
    """Atoms spread over a box and the eight beside it, so that wrapping has work to do."""
    generator = torch.Generator().manual_seed(seed)
    side = round(count ** (1 / 3) + 0.5)
    grid = torch.cartesian_prod(*(torch.arange(side, dtype=torch.float64),) * 3)
    place = torch.randperm(side**3, generator=generator)[:count]
    share = (grid[place] + 0.5 * torch.rand(count, 3, dtype=torch.float64, generator=generator)) / side
    share += torch.randint(-1, 2, (count, 3), generator=generator)
    zeros = torch.zeros(count, dtype=torch.int32, device=device)
    start = torch.tensor([0, count], dtype=torch.int32, device=device)
    return Atoms((share @ cell.double()).to(device), zeros + 1, zeros, start, cell.double()[None].to(device))


def same(a: Edges, b: Edges) -> bool:
    """Every tensor of the two lists, to the bit."""
    return all(torch.equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(Edges))


def alike(a: Edges, b: Edges) -> bool:
    """The same edges in the same places; r may differ in its last bit, where float64 sums were made in another order."""
    whole = ("row_ptr", "i", "j", "reverse", "overflow")
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in whole) and bool(
        ((a.r - b.r).abs() < 1e-5).all()
    )


def check_molecules(atoms: Atoms, room: int) -> Found:
    """The list of molecules, one that overflows, and one pruned from a list with skin after the atoms moved."""
    expected = lists.find_plain(atoms, CUTOFF, room)
    found = molecules.find_in_molecules(atoms, CUTOFF, room)
    tight = max(1, int(expected.row_ptr[-1]) - 7)
    wide = molecules.find_in_molecules(atoms, CUTOFF + 1, 2 * room)
    moved = replace(atoms, positions=atoms.positions + 0.2 * torch.sin(7 * atoms.positions))
    return {
        "list": same(found, expected),
        "again": same(molecules.find_in_molecules(atoms, CUTOFF, room), found),
        "overflow": same(molecules.find_in_molecules(atoms, CUTOFF, tight), lists.find_plain(atoms, CUTOFF, tight)),
        "pruned": same(prune.prune(moved, wide, None, CUTOFF, room), lists.find_plain(moved, CUTOFF, room)),
    }


def ordered(edges: Edges, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Edges as (i, j, shift) in ascending order, and their vectors."""
    count = int(edges.row_ptr[-1])
    key = edges.i[:count].long() * 2**31 + edges.j[:count]
    order = torch.argsort(shift[:count].long(), stable=True)
    order = order[torch.argsort(key[order], stable=True)]
    named = torch.stack((edges.i[:count], edges.j[:count], shift[:count]), dim=1)
    return named[order], edges.r[:count][order]


def check_box(atoms: Atoms, box: Box, wide_box: Box, room: int) -> Found:
    """The list of a box against brute force, its opposites and empty places, and one pruned from a list with skin."""
    expected, expected_shift = cells.find_in_box_plain(atoms, box, room)
    found, shift = cells.find_in_box(atoms, box, room)
    again, again_shift = cells.find_in_box(atoms, box, room)
    (named, r), (expected_named, expected_r) = ordered(found, shift), ordered(expected, expected_shift)
    count, back = int(found.row_ptr[-1]), found.reverse.long()
    wide, wide_shift = cells.find_in_box(atoms, wide_box, 2 * room)
    moved = replace(atoms, positions=atoms.positions + 0.2 * torch.sin(7 * atoms.positions))
    pruned = prune.prune(moved, wide, wide_shift, CUTOFF, room)
    return {
        "rows": torch.equal(found.row_ptr, expected.row_ptr),
        "edges": torch.equal(named, expected_named),
        "vectors": float((r - expected_r).abs().max()) if count and torch.equal(named, expected_named) else 1.0,
        "no-overflow": int(found.overflow) == 0 and int(wide.overflow) == 0,
        "reverse": torch.equal(back[back], torch.arange(room, device=back.device))
        and torch.equal(found.i[back], found.j) and torch.equal(found.r[back][:count], -found.r[:count]),
        "empty": not bool(found.i[count:].any() | found.j[count:].any()) and bool((found.r[count:, 0] == 2 * CUTOFF).all()),
        "again": same(again, found) and torch.equal(again_shift[:count], shift[:count]),
        "pruned": alike(pruned, prune.prune_plain(moved, wide, wide_shift, CUTOFF, room))
        and torch.equal(pruned.row_ptr, lists.find_plain(moved, CUTOFF, room).row_ptr),
    }  # fmt: skip


def relative(found: Tensor, exact: Tensor) -> float:
    """Largest error over the largest value; inf where something is not finite."""
    if not exact.numel():
        return 0.0
    found, exact = found.detach().double(), exact.detach()
    error = float((found - exact).abs().max() / exact.abs().max().clamp(min=1e-12))
    return error if error == error else float("inf")


def wide(*tensors: Tensor | None) -> list[Tensor | None]:
    """float64."""
    return [None if tensor is None else tensor.double() for tensor in tensors]


def check_messages(
    atoms: Atoms, edges: Edges, features: int, forward: list[message.RowLaunch], backward: list[message.RowLaunch],
    *, tabulated: bool = False, basis: str = "gaussian", functions: int = 20,
) -> Found:  # fmt: skip
    """Both passes with each launch, with mu and without: worst errors, and whether a second run on a GPU gives the same bits."""
    sizes = Sizes(features=features, basis=basis, radial=functions)  # type: ignore[arg-type]
    device, generator = atoms.positions.device, torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device)

    count, found = atoms.positions.shape[0], {}
    filters = 0.3 * draw(2, sizes.radial + 1, 3 * features)
    real = int(edges.row_ptr[-1])
    if tabulated:
        filters = table.build_table(filters, sizes, 256)
        record, slope = table.table_records(edges.r, edges.row_ptr, sizes, 256)
        exact_record, exact_slope = (t.double() for t in (record, slope))
        # of the cubic's four weights the last three add up to the part of the interval passed: where the edge is read
        step = (sizes.cutoff - table.FIRST) / 255
        read = table.FIRST + step * (exact_record[:real, 1:4].sum(1) + exact_record[:real, 7] / 2)
        found["record"] = relative(read, edges.r[:real].double().norm(dim=1))
        found["slope"] = relative(step * exact_slope[:real, 1:4].sum(1), torch.ones_like(read))
    else:
        record, slope = radial.edge_records(edges.r, edges.row_ptr, sizes)
        exact_record, exact_slope = radial.edge_records_plain(edges.r.double(), sizes)
        found["record"] = relative(record[:real], exact_record[:real])
        found["slope"] = relative(slope[:real], exact_slope[:real])
    # not the first layer: a table of one lies in any order as it should
    filters = filters[1]
    q, mu, x = draw(count, features), draw(count, 3, features), draw(count, 3 * features)
    qbar, mubar = draw(count, 2 * features)[:, :features], draw(count, 3, features)
    rows = (edges.row_ptr, edges.j)
    # the interpreter runs one program after the other: that a second run is like the first would show nothing
    runs = 2 if device.type == "cuda" else 1
    tiles = any(launch.tile for launch in (*forward, *backward))
    parts = make_split(edges, sizes, filters) if tiles else None
    for name, m in (("", mu), ("-first", None)):
        exact = message.message_plain(*wide(q, m, x), exact_record, *rows, filters.double())
        for launch in forward:
            if launch.tile:
                got, *again = (message_tiles.message_by_tiles(q, m, x, parts, *rows, launch) for _ in range(runs))
            else:
                got, *again = (message.message(q, m, x, record, *rows, filters, launch) for _ in range(runs))
            keep(found, f"q{name}", relative(got[0], exact[0]))
            keep(found, f"mu{name}", relative(got[1], exact[1]))
            for other in again:
                repeats = all(torch.equal(a, b) for a, b in zip(got, other, strict=True))
                found["again"] = found.get("again", True) and repeats
        exact_pulls = torch.zeros(1, edges.j.shape[0], 3, dtype=torch.float64, device=device)
        for add in (False, True):
            exact = adjoint.message_adjoint_plain(
                *wide(qbar, mubar, m, x), exact_record, exact_slope, *rows, filters.double(), exact_pulls, add=add
            )
        for launch in backward:
            results = []
            for _ in range(runs):
                pulls = adjoint.new_pulls(edges.j.shape[0], features, count, device, launch)
                for add in (False, True):
                    if launch.tile:
                        got = adjoint_tiles.adjoint_by_tiles(
                            qbar, mubar, m, x, parts, *rows, pulls, add=add, launch=launch
                        )
                    else:
                        got = adjoint.message_adjoint(
                            qbar, mubar, m, x, record, slope, *rows, filters, pulls, add=add, launch=launch
                        )
                results.append((pulls[:, :real], *(got or ())))
            first, *again = results
            keep(found, f"pulls{name}", relative(first[0].double().sum(0), exact_pulls[0, :real]))
            if exact is not None:
                keep(found, "xbar", relative(first[1], exact[0]))
                keep(found, "mubar", relative(first[2], exact[1]))
            for other in again:
                found["again"] &= all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    return found


def make_split(edges: Edges, sizes: Sizes, filters: Tensor) -> split.Split:
    """What tiles read: edges, and the filter (K + 1, 3F) of one layer."""
    return split.Split(split.split_edges(edges.r, edges.row_ptr, sizes), split.split_filters(filters[None])[0])


def keep(found: Found, name: str, error: float) -> None:
    """The worst so far."""
    found[name] = max(found.get(name, 0.0), error)


def check_forces(edges: Edges, atoms: Atoms, parts: int) -> Found:
    """Forces, strain gradient and sums of systems; forces add up to nothing. What has no energy has no forces."""
    generator = torch.Generator().manual_seed(3)
    pulls = torch.randn(parts, edges.j.shape[0], 3, generator=generator).to(edges.r.device)
    count, start, device = len(atoms.numbers), atoms.start.tolist(), edges.r.device
    energy, atomref = (torch.randn(n, generator=generator).to(device) for n in (count, 3))
    atomref = atomref.double()
    atoms = replace(atoms, numbers=torch.arange(count, dtype=torch.int32, device=device) % 3)
    each = energy.double() + atomref[atoms.numbers.long()]

    def run(now: Atoms, overflow: Tensor) -> tuple[Tensor, ...]:
        energies = forces.sum_energies(energy, atomref, now, overflow)
        return energies, *forces.gather_forces(pulls, edges, energies, now.system, strain=True)

    energies, got, gradient = run(atoms, edges.overflow)
    exact, exact_gradient = forces.gather_forces_plain(pulls, edges, energies, atoms.system, strain=True)
    total = forces.sum_systems(gradient, atoms.start)
    sums = torch.stack([exact_gradient[a:b].sum(0) for a, b in pairwise(start)])
    found = {}
    # a coordinate of the last atom but one system
    system = len(start) // 2 - 1
    mine = (torch.arange(len(start) - 1, device=device) == system, atoms.system == system, atoms.system == system)
    for value in (torch.nan, torch.inf, -torch.inf):
        moved = replace(atoms, positions=atoms.positions.clone())
        moved.positions[start[system + 1] - 1, 1] = value
        found[f"lost at {value}"] = all(
            bool(now[own].isnan().all()) and torch.equal(now[~own], whole[~own])
            for own, now, whole in zip(mine, run(moved, edges.overflow), (energies, got, gradient), strict=True)
        )
    return found | {
        "forces": relative(got, exact),
        "strain": relative(gradient, exact_gradient),
        "sums": relative(total, sums),
        "energies": relative(energies, torch.stack([each[a:b].sum() for a, b in pairwise(start)])),
        "refused": all(bool(part.isnan().all()) for part in run(atoms, torch.ones_like(edges.overflow))),
        "balance": float(got.sum(0).abs().max()),
        "again": torch.equal(got, forces.gather_forces(pulls, edges, energies, atoms.system)[0]),
    }


def check_atoms(
    count: int, features: int, hidden: int, device: str = "cpu", few: dense.TileLaunch | None = None
) -> Found:
    """Every dense kernel, with each of its launches or with one, with weights whole and split."""
    found = {}
    for name, forth, back in (("", Tensor.contiguous, Tensor.contiguous), ("split ", dense.split, split_back)):
        more = check_dense(count, features, hidden, device, few, forth, back)
        found |= {f"{name}{key}": error for key, error in more.items()}
    return found


def split_back(weight: Tensor) -> Tensor:
    """Split for products with the weight transposed."""
    return dense.split(weight.T).mT


def check_dense(
    count: int, features: int, hidden: int, device: str, few: dense.TileLaunch | None, forth: Form, back: Form
) -> Found:
    """The same with weights in one form, for products with them and with them transposed."""
    generator = torch.Generator().manual_seed(2)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device)

    f, found = features, {}
    q, h, z, nbar, mu, mubar = (
        draw(count, f),
        draw(count, f),
        draw(count, f),
        draw(count, f),
        draw(count, 3, f),
        draw(count, 3, f),
    )
    qbar, xbar = draw(count, 2 * f)[:, :f], draw(count, 3 * f)
    scale = f**-0.5
    first, second, third = scale * draw(f, 2 * f), scale * draw(3 * f, f), scale * draw(2 * f, f)
    bias, bias3 = draw(f), draw(3 * f)

    def compare(name: str, launches: tuple[dense.TileLaunch, ...], call, plain) -> None:
        exact = plain()
        for launch in (few,) if few else dense.fitting_tiles(launches, f):
            got = call(launch)
            pairs = zip(got, exact, strict=True) if isinstance(got, tuple) else ((got, exact),)
            for one, other in pairs:
                if one is not None:
                    keep(found, name, relative(one, other))

    linear, plain = dense.linear, dense.linear_plain
    compare("silu", dense.LINEAR_LAUNCHES,
            lambda launch: linear(q, forth(first), bias, second=h, silu=True, launch=launch),
            lambda: plain(*wide(q, first, bias), second=h.double(), silu=True))  # fmt: skip
    compare("slope", dense.LINEAR_LAUNCHES,
            lambda launch: linear(xbar, back(second), transpose=True, slope_at=z, residual=qbar, launch=launch),
            lambda: plain(*wide(xbar, second), transpose=True, slope_at=z.double(), residual=qbar.double()))  # fmt: skip
    vu, norm, dot = update.mix_plain(*wide(mu, third), 1e-8)
    kept = tuple(t.float() for t in (vu, norm, dot))
    gates = torch.cat((draw(count, f), draw(count, f)), dim=1)
    compare("mix", update.MIX_LAUNCHES,
            lambda launch: update.mix(mu, forth(third), 1e-8, launch=launch), lambda: (vu, norm, dot))  # fmt: skip
    for name, m, bar in (("", mu, mubar), ("-last", None, None)):
        # in the last layer b is not written
        columns = slice(f if m is None else 0, None)

        def gate(launch: dense.TileLaunch, m=m, columns=columns):
            q_out, mu_out, both = update.gate(h, forth(second), bias3, q, m, kept[0], kept[2], launch=launch)
            return q_out, mu_out, both[:, columns]

        exact = update.gate_plain(*wide(h, second, bias3, q, m, kept[0], kept[2]))
        compare(f"gate{name}", update.GATE_LAUNCHES, gate, lambda e=exact, c=columns: (e[0], e[1], e[2][:, c]))
        compare(f"ungate{name}", update_adjoint.UNGATE_LAUNCHES,
                lambda launch, bar=bar: update_adjoint.ungate(qbar, bar, kept[0], kept[2], z, back(second), launch=launch),
                lambda bar=bar: update_adjoint.ungate_plain(*wide(qbar, bar, kept[0], kept[2], z, second)))  # fmt: skip
        compare(f"unmix{name}", update_adjoint.UNMIX_LAUNCHES,
                lambda launch, bar=bar: update_adjoint.unmix(qbar, nbar, bar, gates, *kept[:2], back(third), launch=launch),
                lambda bar=bar: update_adjoint.unmix_plain(*wide(qbar, nbar, bar, gates, *kept[:2], third)))  # fmt: skip
    top, weight, one = draw(count, hidden), draw(1, hidden), draw(1)
    got, exact = readout.read_out(top, weight, one), readout.read_out_plain(*wide(top, weight, one))
    found["readout"] = max(relative(a, b) for a, b in zip(got, exact, strict=True))
    return found


def plain_list(atoms: Atoms, room: int) -> Edges:
    """By brute force, on the device of the atoms."""
    i, j, shift = reference.find_neighbours(atoms, CUTOFF)
    return lists.place_edges(atoms, i, j, shift, CUTOFF, room)
