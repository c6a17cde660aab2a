"""How well dynamics kept its energy: the slope of the total energy with its standard error, per nanosecond."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

# means of so many blocks of one trajectory stand for independent points
BLOCKS = 10
# the document's limit on the drift, in % of the total energy per ns
LIMIT = 0.1
# fs; over less than this the swing of slow vibrations looks like a drift, the same one in every replica
SHORTEST = 1000.0


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Of the total energy of one system in eV/ns, with its standard error; NaN where too little is known."""

    value: float
    error: float
    # independent points beyond those that the fit takes, and how long the run was, in fs
    freedom: int
    span: float


def fit_slope(times: np.ndarray, totals: np.ndarray) -> Slope:
    """A straight line through one trajectory's total energies.

    Neighbouring frames are alike, so the line goes through the means of ten blocks, and its error is theirs around it.

    Args:
        times: (frames,) in fs, evenly spaced. totals: (frames,) in eV.
    """
    if len(times) < 2 * BLOCKS:
        return Slope(value=math.nan, error=math.nan, freedom=0, span=0.0)
    # as many frames in each; the first ones, nearest to the start, are left out
    each = len(times) // BLOCKS
    t = times[-each * BLOCKS :].reshape(BLOCKS, each).mean(1) / 1e6
    y = totals[-each * BLOCKS :].reshape(BLOCKS, each).mean(1)
    t, y = t - t.mean(), y - y.mean()
    slope = float((t * y).sum() / (t * t).sum())
    left = y - slope * t
    error = float(np.sqrt((left * left).sum() / (BLOCKS - 2) / (t * t).sum()))
    return Slope(value=slope, error=error, freedom=BLOCKS - 2, span=float(times[-1] - times[0]))


def describe(slope: Slope, atoms: int, kinetic: float, total: float) -> str:
    """Lines for a user; `kinetic` and `total` are the mean energies of one system of `atoms` atoms, in eV."""
    if not (math.isfinite(slope.value) and math.isfinite(slope.error)):
        return (
            f"drift: too little to fit it and its error; {2 * BLOCKS} frames of one system, or two replicas, are needed"
        )
    shares = {
        name: (100 * slope.value / abs(energy), 100 * slope.error / abs(energy))
        for name, energy in (("total", total), ("kinetic", kinetic))
    }
    told = ", ".join(
        f"{value:+.3g} +- {error:.2g} %/ns of the {name} energy" for name, (value, error) in shares.items()
    )
    per_atom = f"{1e3 * slope.value / atoms:+.3g} +- {1e3 * slope.error / atoms:.2g} meV/atom/ns"
    value, error = shares["total"]
    margin = error * float(student_t.ppf(0.975, slope.freedom))
    if slope.span < SHORTEST or abs(abs(value) - LIMIT) <= margin:
        verdict = "too short a run to tell from"
    else:
        verdict = "below" if abs(value) < LIMIT else "ABOVE"
    return f"drift {told}; {per_atom}\n{verdict} {LIMIT:g} %/ns of the total energy, at 95 %"
