"""Messages by Triton kernels: the same interface as `messages.PlainMessages`, over rows instead of edges.

Where there is no GPU each of them answers in plain PyTorch, and the program says
so in its fallbacks.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from phasewise.kit.kernels import has_kernel
from phasewise_studies.painn.kernels.adjoint import ADJOINT_LAUNCHES, ADJOINT_LIMITS, message_adjoint, new_pulls
from phasewise_studies.painn.kernels.adjoint_tiles import ADJOINT_TILE_LIMITS, ADJOINT_TILES, adjoint_by_tiles
from phasewise_studies.painn.kernels.launches import RowLaunch, choose_launch
from phasewise_studies.painn.kernels.message import FORWARD_LAUNCHES, FORWARD_LIMITS, message
from phasewise_studies.painn.kernels.message_tiles import FORWARD_TILE_LIMITS, FORWARD_TILES, message_by_tiles
from phasewise_studies.painn.kernels.radial import edge_records
from phasewise_studies.painn.kernels.split import Split, SplitFilter, find_depth, split_edges, split_filters
from phasewise_studies.painn.kernels.table import table_records
from phasewise_studies.painn.layout import Edges, Sizes

# halves of an edge in a tile, those of 21 numbers: of twice as many the filter alone takes more registers than a thread has
MOST_HALVES = 64
# features of a program of the kernels, and of half of a model in a tile of 32
WIDTH = 64
# compute capability
TILES_FROM = (8, 0)


@dataclass(frozen=True)
class Launches:
    """How the rows are cut into programs, forwards and backwards: both by tiles on tensor cores, or neither."""

    forward: RowLaunch
    adjoint: RowLaunch

    def __post_init__(self) -> None:
        assert bool(self.forward.tile) == bool(self.adjoint.tile), f"{self}: they read the same records"

    @property
    def tiled(self) -> bool:
        """Whether they multiply on tensor cores, and so read halves."""
        return bool(self.forward.tile)


def default_launches(atoms: int, sizes: Sizes, device: torch.device, knots: int = 0) -> Launches:
    """The launches for so many atoms, among those that fit."""
    forward, adjoint = fitting_launches(sizes, device, knots)
    is_tiled = bool(forward[0].tile)
    forward_limits, adjoint_limits = (
        (FORWARD_TILE_LIMITS, ADJOINT_TILE_LIMITS) if is_tiled else (FORWARD_LIMITS, ADJOINT_LIMITS)
    )
    return Launches(choose_launch(forward, forward_limits, atoms), choose_launch(adjoint, adjoint_limits, atoms))


def fitting_launches(
    sizes: Sizes, device: torch.device, knots: int = 0
) -> tuple[tuple[RowLaunch, ...], tuple[RowLaunch, ...]]:
    """All launches for this model and device, forwards and backwards: by tiles where there are any.

    Tiles are not for tables, nor for more numbers than stay in registers, nor for GPUs whose tensor cores have no m16n8k16.
    """
    features, obstacle = sizes.features, find_obstacle(sizes)
    assert not obstacle, obstacle
    has_tiles = not knots and find_depth(sizes.radial + 1) <= MOST_HALVES
    if device.type == "cuda":
        has_tiles &= torch.cuda.get_device_capability(device) >= TILES_FROM
    both = (FORWARD_TILES, ADJOINT_TILES) if has_tiles else (FORWARD_LAUNCHES, ADJOINT_LAUNCHES)
    forward, adjoint = (tuple(one for one in launches if features % one.block == 0) for launches in both)
    return forward, adjoint


def find_obstacle(sizes: Sizes) -> str:
    """Why the kernels of messages and atoms do not take this model; "" if they do."""
    if sizes.features % WIDTH:
        return f"{sizes.features} features are no multiple of {WIDTH}"
    # records are read in pairs of floats
    return f"{sizes.radial} radial functions are an odd number" if sizes.radial % 2 else ""


class FusedMessages:
    """Edges as records of radial functions and directions; filters (L, K + 1, 3F) of `pack_filter`.

    With `knots`, filters are (L, 2 knots, 3F) of `build_table`, and records hold weights of neighbouring knots. `halves` are the filters
    of `split_filters`, for launches with tiles; made anew where they are not given.
    """

    def __init__(
        self, edges: Edges, filters: Tensor, sizes: Sizes, launches: Launches, *, slopes: bool = True, knots: int = 0,
        halves: SplitFilter | None = None,
    ) -> None:  # fmt: skip
        self.edges, self.filters, self.launches = edges, filters, launches
        # without kernels nothing reads halves
        self.tiled = launches.tiled and has_kernel(edges.r.device, edges.r.dtype)
        if self.tiled:
            assert not knots, "a table has no products"
            self.halves = halves or split_filters(filters)
            self.records = split_edges(edges.r, edges.row_ptr, sizes, slopes=slopes)
        elif knots:
            self.record, self.slope = table_records(edges.r, edges.row_ptr, sizes, knots)
        else:
            self.record, self.slope = edge_records(edges.r, edges.row_ptr, sizes, slopes=slopes)
        self.parts = _new_parts(edges, filters, launches)
        self.top = sizes.layers - 1

    def relaunch(self, launches: Launches) -> FusedMessages:
        """The same records under other launches, which are tiled as these are; its pulls are its own."""
        assert launches.tiled == self.launches.tiled, "tiles read other records"
        other = copy(self)
        other.launches, other.parts = launches, _new_parts(self.edges, self.filters, launches)
        return other

    def send(self, layer: int, q: Tensor, mu: Tensor | None, x: Tensor) -> tuple[Tensor, Tensor]:
        """One message forward."""
        rows, launch = (self.edges.row_ptr, self.edges.j), self.launches.forward
        if self.tiled:
            return message_by_tiles(q, mu, x, Split(self.records, self.halves[layer]), *rows, launch)
        return message(q, mu, x, self.record, *rows, self.filters[layer], launch)

    def pull(
        self, layer: int, qbar: Tensor, mubar: Tensor, mu: Tensor | None, x: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """The adjoint; the layers add to one sum of pulls, which the last layer begins."""
        rows, launch, add = (self.edges.row_ptr, self.edges.j), self.launches.adjoint, layer < self.top
        if self.tiled:
            split = Split(self.records, self.halves[layer])
            return adjoint_by_tiles(qbar, mubar, mu, x, split, *rows, self.parts, add=add, launch=launch)
        return message_adjoint(
            qbar, mubar, mu, x, self.record, self.slope, *rows, self.filters[layer], self.parts, add=add, launch=launch
        )

    def pulls(self) -> Tensor:
        """dE/dr' of each edge, still in parts: (P, E, 3)."""
        return self.parts


def _new_parts(edges: Edges, filters: Tensor, launches: Launches) -> Tensor:
    """Room for dE/dr', (P, E, 3)."""
    atoms = edges.row_ptr.shape[0] - 1
    return new_pulls(edges.j.shape[0], filters.shape[2] // 3, atoms, edges.r.device, launches.adjoint)
