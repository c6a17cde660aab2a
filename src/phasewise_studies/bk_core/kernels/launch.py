"""How a row is cut into chunks, steps and warps."""

from __future__ import annotations

import math
from dataclasses import dataclass

LANES = 32
# chunks after which a wrong state is forgotten at Im z = 1 (documented range of a: 8, 3 and 2 were counted), by chunk length
VIEW = {4: 10, 8: 3, 16: 2}
MOST_VIEW = 12
# warps that keep an H200 busy: 132 multiprocessors of 16
WARPS = 2112
# from so many positions on there is work for every warp, and longer chunks mean less of it
FILLS_THE_DEVICE = 1 << 20


@dataclass(frozen=True)
class Launch:
    """How a row is cut: positions a chunk (one lane), chunks that look ahead in a step of 32, and chunks a warp."""

    chunk: int
    view: int
    span: int

    def count_parts(self, length: int) -> int:
        """Warps for each row."""
        return max(1, -(-length // (self.chunk * self.span)))


def choose_launch(
    batch: int,
    length: int,
    *,
    eta: float = 1.0,
    chunk: int | None = None,
    steps: int | None = None,
    gradient: bool = False,
) -> Launch:
    """The launch for `batch` rows; `chunk` (4, 8 or 16) and `steps` of 32 chunks a warp override the choice."""
    if chunk is None:
        # the gradient holds three times as much of a chunk in registers
        long = 16 if batch * length >= FILLS_THE_DEVICE and not gradient else 8
        chunk = 4 if length <= 4 * LANES else long
    view = min(MOST_VIEW, math.ceil(VIEW[chunk] / min(abs(eta), 1.0)))
    chunks = max(1, -(-length // chunk))
    if steps is None:
        steps = max(1, batch * chunks // (WARPS * (LANES - view)))
    # the first step of a part looks both ways
    span = (LANES - view) * steps - view
    return Launch(chunk, view, chunks if chunks <= max(span, LANES) else span)
