"""What the messages with tiles of edges are held to besides `check_messages`: rows of any length, and numbers that are not finite."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from phasewise_studies.painn.kernels import adjoint, split
from phasewise_studies.painn.kernels.adjoint_tiles import adjoint_by_tiles
from phasewise_studies.painn.kernels.fused_messages import FusedMessages, Launches
from phasewise_studies.painn.kernels.launches import RowLaunch
from phasewise_studies.painn.kernels.message_tiles import message_by_tiles
from phasewise_studies.painn.layout import Atoms, Edges, Sizes
from phasewise_studies.painn.tests.painn_kernel_cases import Found, draw_batch, make_split

# around a tile and two, with none, and many
LENGTHS = [0, 1, 8, 15, 16, 17, 40]


def draw_rows(lengths: list[int]) -> tuple[Atoms, Edges]:
    """Rows of these lengths, to any other atoms, and places that are in no row; a message does not ask whether a list is symmetric."""
    generator = torch.Generator().manual_seed(6)
    count, total = len(lengths), sum(lengths)
    room = total + 3
    i = torch.repeat_interleave(torch.arange(count), torch.tensor(lengths))
    j = (i + 1 + torch.randint(count - 1, (total,), generator=generator)) % count
    empty = torch.zeros(3, dtype=torch.long)
    i, j = (torch.cat((ends, empty)).int() for ends in (i, j))
    row_ptr = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    r = torch.randn(room, 3, generator=generator)
    r *= (0.7 + 4.2 * torch.rand(room, 1, generator=generator)) / r.norm(dim=1, keepdim=True)
    edges = Edges(row_ptr, i, j, r, None, torch.zeros((), dtype=torch.int32))
    return draw_batch([count]), edges


def check_poison(edges: Edges, features: int, launch: RowLaunch) -> Found:
    """What is not finite at one atom, and along one edge, reaches the rows that have them and no other; the others keep their bits."""
    sizes, generator = Sizes(features=features), torch.Generator().manual_seed(7)
    count, real = edges.row_ptr.shape[0] - 1, int(edges.row_ptr[-1])

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    filters = 0.3 * draw(sizes.radial + 1, 3 * features)
    q, mu, x, qbar, mubar = (draw(count, n * features) for n in (1, 3, 3, 1, 3))
    mu, mubar = mu.view(count, 3, features), mubar.view(count, 3, features)
    rows = (edges.row_ptr, edges.j)

    def run(r: Tensor, given: list[Tensor], received: list[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        parts = make_split(replace(edges, r=r), sizes, filters)
        forth = message_by_tiles(q, mu, given[0], parts, *rows, launch)
        pulls = adjoint.new_pulls(r.shape[0], features, count, r.device, launch)
        back = adjoint_by_tiles(*received, mu, x, parts, *rows, pulls, add=False, launch=launch)
        return forth, (*back, pulls)

    lost, place = int(edges.j[real - 1]), int(edges.row_ptr[-2]) - 1
    wrong = [tensor.clone() for tensor in (x, qbar, mubar)]
    for tensor in wrong:
        tensor[lost] = float("nan")
    broken = edges.r.clone()
    broken[place] = float("nan")
    at, along = edges.j[:real] == lost, torch.arange(real) == place
    found = {}
    whole = run(edges.r, [x], [qbar, mubar])
    for name, there, got in (
        ("atom", at, run(edges.r, [wrong[0]], wrong[1:])),
        ("edge", along, run(broken, [x], [qbar, mubar])),
    ):
        reached = torch.zeros(count, dtype=torch.bool)
        reached[edges.i[:real][there].long()] = True
        for which, (clean, now) in enumerate(zip(whole, got, strict=True)):
            # mubar adds to itself
            own = reached.clone()
            own[lost] |= which == 1 and name == "atom"
            kept = all(torch.equal(a[~own], b[~own]) for a, b in zip(clean[:2], now[:2], strict=True))
            found[f"{name}-{which}"] = kept and all(bool(b[reached].isnan().any()) for b in now[:2])
        pulls, after = whole[1][2][:, :real], got[1][2][:, :real]
        found[f"{name}-pulls"] = torch.equal(pulls[:, ~there], after[:, ~there]) and bool(after[:, there].isnan().all())
    return found


def check_layers(features: int, launch: RowLaunch) -> Found:
    """A model's messages with halves that are made once for all of its layers: the bits of a call that makes its own."""
    sizes, generator = Sizes(features=features), torch.Generator().manual_seed(9)
    _, edges = draw_rows([3, 0, 9])

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    filters = draw(sizes.layers, sizes.radial + 1, 3 * features) * torch.tensor([0.01, 1.0, 300.0])[:, None, None]
    q, mu, x = draw(3, features), draw(3, 3, features), draw(3, 3 * features)
    messages = FusedMessages(edges, filters, sizes, Launches(launch, launch), halves=split.split_filters(filters))
    rows = (edges.row_ptr, edges.j)
    pulls = torch.zeros_like(messages.pulls())
    found, real = {}, int(edges.row_ptr[-1])
    for layer in reversed(range(sizes.layers)):
        parts = make_split(edges, sizes, filters[layer])
        forth = messages.send(layer, q, mu, x), message_by_tiles(q, mu, x, parts, *rows, launch)
        back = (
            messages.pull(layer, q, mu, mu, x),
            adjoint_by_tiles(q, mu, mu, x, parts, *rows, pulls, add=layer < 2, launch=launch),
        )
        pairs = ((a, b) for both in (forth, back) for a, b in zip(*both, strict=True))
        found[f"layer-{layer}"] = all(torch.equal(a, b) for a, b in pairs)
    return found | {"layers-pulls": torch.equal(messages.pulls()[:, :real], pulls[:, :real])}
