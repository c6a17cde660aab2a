"""Statistics of paired comparisons: pure functions of numbers, without clocks, files or torch."""

from phasewise.stats.between import BetweenVariance, measure_level, pool_like
from phasewise.stats.bimodal import Modes, find_modes, split_modes
from phasewise.stats.bootstrap import bca_interval
from phasewise.stats.chain import chain_ratios
from phasewise.stats.floor import UNMEASURED_FLOOR, aa_floor
from phasewise.stats.holm import holm
from phasewise.stats.looks import StopRules, paid_error
from phasewise.stats.percentile import p50, p99
from phasewise.stats.ratio import RatioEstimate, log_bounds_at, p_value
from phasewise.stats.sets import combine_sets, estimate_ratio
from phasewise.stats.slope import Trend, is_warm, measure_trend
from phasewise.stats.stopping import Continue, Progress, Stop, decide_next, is_precise
from phasewise.stats.trimmed import TrimmedMean, trimmed_mean, yuen_interval
from phasewise.stats.verdict import Conditions, Decision, decide_status

__all__ = [
    "UNMEASURED_FLOOR",
    "BetweenVariance",
    "Conditions",
    "Continue",
    "Decision",
    "Modes",
    "Progress",
    "RatioEstimate",
    "Stop",
    "StopRules",
    "Trend",
    "TrimmedMean",
    "aa_floor",
    "bca_interval",
    "chain_ratios",
    "combine_sets",
    "decide_next",
    "decide_status",
    "estimate_ratio",
    "find_modes",
    "holm",
    "is_precise",
    "is_warm",
    "log_bounds_at",
    "measure_level",
    "measure_trend",
    "p50",
    "p99",
    "p_value",
    "paid_error",
    "pool_like",
    "split_modes",
    "trimmed_mean",
    "yuen_interval",
]
