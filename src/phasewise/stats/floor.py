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


def aa_floor(controls: Sequence[RatioEstimate], *, level: float = 0.95) -> float:
    """The size that the log-ratio of an A/A estimate stays under with probability `level`: a claim must clear it.

    Where the controls' intervals know the noise between processes, it is their half-width. If the controls stray from
    1 by more than such intervals allow (an F test; for one control: its interval leaves out 1), the half-width is
    stretched by the ratio of the spread seen to the spread stated (Birge 1932, Physical Review 40, 207-227). Where the
    controls are of one process set each, the estimates are all there is: Student's t with as many degrees of freedom
    as controls, about the known mean of 0; one control then sets the bar 12.7 times as high as what it showed. Raises
    ValueError without controls; `UNMEASURED_FLOOR` is for that.
    """
    if not controls:
        raise ValueError("the A/A floor needs at least one A/A comparison; without any use UNMEASURED_FLOOR")
    seen = _root_mean_square([ratio.log_estimate for ratio in controls])
    stated = _root_mean_square([ratio.standard_error for ratio in controls])
    width = _root_mean_square([ratio.half_width for ratio in controls])
    if any(ratio.method == "one-set" for ratio in controls) or stated == 0.0:
        return max(width, t_quantile(1.0 - level, len(controls)) * seen)
    if math.isinf(stated):
        return math.inf
    chance = fdtrc(len(controls), min(ratio.df for ratio in controls), (seen / stated) ** 2)
    return width * seen / stated if chance < 1.0 - level else width


def noise_limit(own: SetLevel, controls: Sequence[tuple[SetLevel, RatioEstimate]]) -> float | None:
    """The log-ratio that a claim of a comparison with these sets must clear, by the controls that are as noisy as it.

    0 where none is: what another noise pretends says nothing of it, and its own interval holds. None without a control.
    """
    known = [(level, ratio) for level, ratio in controls if math.isfinite(ratio.standard_error)]
    like = [ratio for level, ratio in known if is_noise_like(own, level)]
    return aa_floor(like) if like else 0.0 if known else None


def _root_mean_square(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
