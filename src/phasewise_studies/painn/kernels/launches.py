"""How work is cut into programs: rows of a list for the message kernels, and which launch so many atoms take."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TypeVar

Launch = TypeVar("Launch")


@dataclass(frozen=True)
class RowLaunch:
    """Features and receivers of a program, edges in flight, warps."""

    block: int = 64
    rows: int = 4
    unroll: int = 2
    warps: int = 1
    # the filter is read anew in each iteration, once for all of its edges, and does not stay in registers: there is room for more edges
    streamed: bool = False
    # edges of a product on tensor cores (`tiles.py`): then a program has `warps` warps with a share of its features each; 0: none
    tile: int = 0

    @property
    def summed(self) -> int:
        """Of how many features an edge's pull is one part: of a program's, or of a warp's, if no warp waits for another."""
        return self.block // self.warps if self.tile else self.block


def check_launch(launch: RowLaunch, features: int) -> None:
    """A program's features must divide F, one warp's width at least; in a tile, a warp's are 16 or 32."""
    if launch.tile:
        assert features % launch.block == 0 and launch.summed in (16, 32) and launch.tile == 8, (
            f"{launch} for {features} features"
        )
        return
    assert features % launch.block == 0 and launch.block % (32 * launch.warps) == 0, f"{launch} for {features} features"


def choose_launch(launches: tuple[Launch, ...], limits: tuple[int, ...], atoms: int) -> Launch:
    """The launch for so many atoms: the first below the first of the ascending limits, the second from there on, and so forth."""
    return launches[bisect_right(limits, atoms)]
