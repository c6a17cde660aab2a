"""Noise laws of simulated rounds: what an arm's blocks do on a machine, with a truth that is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import signal


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of one arm's block, as standard deviations of the logarithm of its time.

    The defaults are a quiet GPU; fresh process pairs then differ by 0.57 %, somewhat more than the 0.4 % seen
    on an H200.
    """

    white: float = 0.004
    # degrees of freedom of a Student's t in its place, for heavy tails
    tails: float = math.inf
    # Ornstein-Uhlenbeck processes, with their time constant in blocks: one that both arms share, and one of each arm
    drift: float = 0.008
    drift_blocks: float = 12.0
    own_drift: float = 0.0
    # by which each process gets slower or faster from its first block to its last, in a straight line
    slope: float = 0.0
    # share of the blocks that are slower, by a uniform fraction between the two
    outlier_share: float = 0.04
    outlier_low: float = 0.02
    outlier_high: float = 0.12
    # of each process, so the difference of two has sqrt(2) times it; Student's t where its degrees of freedom are given
    process: float = 0.004
    process_tails: float = math.inf
    # two modes: the share of the time in the slow one, how much slower, and blocks until it is drawn again;
    # infinite: a whole process is in one
    slow_share: float = 0.0
    slow: float = 0.0
    slow_blocks: float = math.inf
    # blocks of a process differ in their noise by this factor either way, and comparisons in all of it
    uneven_blocks: float = 1.0
    uneven: float = 1.0
    # this share of the comparisons has so many times the noise between processes
    loud_share: float = 0.0
    loud: float = 1.0
    # what first blocks take longer, falling off over so many blocks, of the parent and of the variant
    warm_up: tuple[float, float] = (0.0, 0.0)
    warm_blocks: float = 3.0


def simulate_rounds(
    rng: np.random.Generator, *, sets: int, rounds: int, gain: float = 0.0, noise: Noise | None = None
) -> np.ndarray:
    """Paired log-ratios, shape (sets, rounds), of a variant that is `gain` faster (0.01: 1 %), in shuffled rounds."""
    noise = noise or Noise()
    shape = (sets, 2, rounds)
    log_times = _scaled(rng, noise.white, noise.tails, shape)
    if noise.uneven_blocks > 1.0:
        log_times *= noise.uneven_blocks ** rng.uniform(-1.0, 1.0, (sets, 2, 1))
    if noise.outlier_share:
        slow = rng.random(shape) < noise.outlier_share
        log_times += slow * np.log1p(rng.uniform(noise.outlier_low, noise.outlier_high, shape))
    if noise.own_drift:
        log_times += noise.own_drift * _drift(rng, 2 * sets, rounds, noise.drift_blocks).reshape(shape)
    if noise.slope:
        log_times += np.multiply.outer(rng.normal(0.0, noise.slope, (sets, 2)), np.linspace(-0.5, 0.5, rounds))
    if noise.slow_share:
        log_times += noise.slow * _modes(rng, shape, noise)
    log_times += np.multiply.outer(noise.warm_up, np.exp(-np.arange(rounds) / noise.warm_blocks))
    between = noise.process * (noise.loud if rng.random() < noise.loud_share else 1.0)
    log_times += _scaled(rng, between, noise.process_tails, (sets, 2, 1))
    ratios = log_times[:, 0] - log_times[:, 1]
    if noise.drift:
        # blocks are in time order; the parent's is first in half of the rounds
        drift = noise.drift * _drift(rng, sets, 2 * rounds, noise.drift_blocks)
        ratios += rng.choice([1.0, -1.0], size=(sets, rounds)) * (drift[:, ::2] - drift[:, 1::2])
    if noise.uneven > 1.0:
        ratios *= noise.uneven ** rng.uniform(-1.0, 1.0)
    return math.log1p(gain) + ratios


def _scaled(rng: np.random.Generator, sd: float, tails: float, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values, or of Student's t with its own scale `sd`."""
    return rng.normal(0.0, sd, shape) if math.isinf(tails) else sd * rng.standard_t(tails, shape)


def _modes(rng: np.random.Generator, shape: tuple[int, ...], noise: Noise) -> np.ndarray:
    """1 where a block is in the slow mode: drawn for a process, and anew with the chance 1 / `slow_blocks` a block."""
    drawn = rng.random(shape) < noise.slow_share
    if math.isinf(noise.slow_blocks):
        return np.broadcast_to(drawn[..., :1], shape)
    fresh = rng.random(shape) < 1.0 / noise.slow_blocks
    fresh[..., 0] = True
    since = np.maximum.accumulate(np.where(fresh, np.arange(shape[-1]), 0), axis=-1)
    return np.take_along_axis(drawn, since, axis=-1)


def _drift(rng: np.random.Generator, series: int, blocks: int, time_blocks: float) -> np.ndarray:
    """Stationary Ornstein-Uhlenbeck samples, shape (series, blocks): an AR(1) process with the same autocorrelation."""
    keep = math.exp(-1.0 / time_blocks)
    drift = rng.normal(0.0, 1.0, (series, blocks))
    drift[:, 1:] *= math.sqrt(1.0 - keep**2)
    return np.asarray(signal.lfilter([1.0], [1.0, -keep], drift))


def _pair(sd: float) -> float:
    """Of one process, where the difference of two shall have `sd`."""
    return sd / math.sqrt(2.0)


def _plain(**unlike: float | tuple[float, float]) -> Noise:
    """Blocks of 0.4 %, processes that differ by 0.4 %, and what else a law has."""
    return Noise(**({"drift": 0.0, "outlier_share": 0.0, "process": _pair(0.004)} | unlike))  # type: ignore[arg-type]


# what the campaign simulates: independent rounds, processes that differ, drifts, tails, two modes, unlike comparisons
LAWS = {
    "independent": _plain(process=0.0),
    "process 0.3 %": _plain(process=_pair(0.003)),
    "process 0.5 %": _plain(process=_pair(0.005)),
    "process 0.7 %": _plain(process=_pair(0.007)),
    "shared drift": _plain(drift=0.008),
    "own drift": _plain(own_drift=0.008),
    "autocorrelated": _plain(own_drift=0.008, drift_blocks=3.0),
    "own slopes": _plain(slope=0.015),
    "heavy tails": _plain(tails=2.0),
    "one-sided tails": _plain(outlier_share=0.15, outlier_low=0.02, outlier_high=0.5),
    "a GPU box": Noise(),
    "bistable process": _plain(slow_share=0.5, slow=0.03),
    "bistable, rare": _plain(slow_share=0.1, slow=0.03),
    "bistable within": _plain(slow_share=0.5, slow=0.03, slow_blocks=6.0),
    "spells": _plain(slow_share=0.3, slow=0.4, slow_blocks=18.0),
    "spells of all": _plain(process=_pair(0.02), slow_share=0.3, slow=0.4),
    "uneven blocks": _plain(white=0.01, uneven_blocks=3.0),
    "uneven comparisons": _plain(uneven=3.0),
    "heavy-tailed process": _plain(process_tails=3.0),
    "one in eight loud": _plain(loud_share=0.125, loud=10.0),
    "warm-up": _plain(warm_up=(0.03, 0.03), own_drift=0.006),
    "warm-up in one arm": _plain(warm_up=(0.0, 0.02)),
    "slow warm-up in one arm": _plain(warm_up=(0.0, 0.02), warm_blocks=10.0),
}
