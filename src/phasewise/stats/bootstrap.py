"""BCa bootstrap of the trimmed mean: a cross-check of Yuen's interval that assumes no law for the rounds.

Source: Efron (1987), Better bootstrap confidence intervals, JASA 82, 171-185. Rounds are resampled, so like Yuen's
interval it holds for the processes at hand and knows nothing of process sets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasewise.stats.ratio import require_finite
from phasewise.stats.special import ndtr, ndtri
from phasewise.stats.trimmed import trimmed_centre

# under 20 rounds the resamples repeat too few values and the interval comes out too short
LEAST_ROUNDS = 20
# the ends of a 95 % interval are then the 100th value from either end, before BCa moves them
RESAMPLES = 4000


def bca_interval(
    values: Sequence[float] | np.ndarray, *, level: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Bootstrap interval on the scale of the values; None under 20 rounds. The same seed gives the same interval.

    Raises ValueError for no values and for values that are not finite.
    """
    rounds = require_finite(values, "rounds to bootstrap")
    n = rounds.size
    if n < LEAST_ROUNDS:
        return None
    centre = float(trimmed_centre(rounds))
    drawn = np.random.default_rng(seed).integers(n, size=(RESAMPLES, n))
    resampled = trimmed_centre(rounds[drawn])
    if np.ptp(resampled) == 0.0:
        return centre, centre
    bias = ndtri(np.mean(resampled < centre) + 0.5 * np.mean(resampled == centre))
    influence = _influence(rounds)
    scale = float(np.sum(influence**2)) ** 1.5
    acceleration = float(np.sum(influence**3)) / (6.0 * scale) if scale > 0.0 else 0.0
    ends = bias + ndtri([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    # Efron's equation for the corrected percentiles
    low, high = np.quantile(resampled, ndtr(bias + ends / (1.0 - acceleration * ends)))
    return float(low), float(high)


def _influence(rounds: np.ndarray) -> np.ndarray:
    """What each round does to the estimate: the mean of the leave-one-out estimates minus each of them."""
    n = rounds.size
    left_out = trimmed_centre(np.tile(rounds, (n, 1))[~np.eye(n, dtype=bool)].reshape(n, n - 1))
    return left_out.mean() - left_out
