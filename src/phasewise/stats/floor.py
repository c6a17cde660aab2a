"""The noise limit: how large an effect this machine pretends when both arms are the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from phasewise.stats.between import SetLevel, is_noise_like
from phasewise.stats.ratio import RatioEstimate, t_quantile
from phasewise.stats.special import fdtrc

# without a control in the run: what identical arms showed on a loaded two-core machine, -10 % to +10 %
UNMEASURED_FLOOR = math.log(1.10)
# of what the comparisons of a case take, for its control
CONTROL_SHARE = 0.1


def aa_floor(controls: Sequence[RatioEstimate], *, sets: int | None = None, level: float = 0.95) -> float | None:
    """The size that the log-ratio of an A/A estimate of `sets` sets stays under with probability `level`: a claim must clear it.

    `sets`: None for as many as the controls have. It is the half-width of the controls' intervals for that many sets: a
    set of a control strays as one of the claim does, however few it has. If the controls stray from 1 by more than their
    intervals allow (an F test; for one control: its interval leaves out 1), the half-width is stretched by the ratio of
    the spread seen to the spread stated (Birge 1932, Physical Review 40, 207-227), and is the spread seen at least: what
    strays in all sets alike is not less in the mean of more. None where no control tells anything.
    """
    controls = [ratio for ratio in controls if tells_noise(ratio)]
    if not controls:
        return None
    seen = _root_mean_square([ratio.log_estimate for ratio in controls])
    stated = _root_mean_square([ratio.standard_error for ratio in controls])
    if stated == 0.0:
        # no noise at all was seen: Student's t of the estimates themselves about the known mean of 0
        return t_quantile(1.0 - level, len(controls)) * seen
    width = _root_mean_square([ratio.half_width * math.sqrt(ratio.sets / (sets or ratio.sets)) for ratio in controls])
    chance = fdtrc(len(controls), min(ratio.df for ratio in controls), (seen / stated) ** 2)
    return max(width * seen / stated, seen) if chance < 1.0 - level else width


def tells_noise(control: RatioEstimate) -> bool:
    """Whether the noise between processes is known to a control: from one set alone it is not, nor without an interval."""
    return control.method != "one-set" and math.isfinite(control.standard_error)


def noise_limit(own: SetLevel, controls: Sequence[tuple[SetLevel, RatioEstimate]]) -> float | None:
    """The log-ratio that a claim of a comparison with these sets must clear, by the controls that are as noisy as it.

    0 where none is: what another noise pretends says nothing of it, and its own interval holds. None where no control
    tells anything.
    """
    known = [(level, ratio) for level, ratio in controls if tells_noise(ratio)]
    like = [ratio for level, ratio in known if is_noise_like(own, level)]
    return aa_floor(like, sets=own.sets) if like else 0.0 if known else None


def _root_mean_square(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
