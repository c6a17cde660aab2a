"""Statistics of paired comparisons: pure functions of numbers, without clocks, files or torch."""

from phasewise.stats.between import BetweenVariance, SetLevel, learn_between, measure_level
from phasewise.stats.bimodal import Modes, find_modes, split_modes
from phasewise.stats.chain import chain_ratios
from phasewise.stats.chances import Chances, adjust_chances
from phasewise.stats.floor import CONTROL_SHARE, UNMEASURED_FLOOR, aa_floor, noise_limit
from phasewise.stats.forecast import interval_score, next_value
from phasewise.stats.holm import holm, holm_families
from phasewise.stats.jumps import jump_limit
from phasewise.stats.looks import StopRules, paid_error
from phasewise.stats.percentile import p50, p99
from phasewise.stats.ratio import RatioEstimate, p_beyond, p_value
from phasewise.stats.sets import combine_sets, estimate_ratio, nearest_round
from phasewise.stats.slope import Trend, is_warm, measure_trend
from phasewise.stats.stopping import Continue, Standing, Stop, count_sure_sets, decide_next, is_precise
from phasewise.stats.trimmed import TrimmedMean, trimmed_mean, yuen_interval
from phasewise.stats.verdict import Conditions, Decision, decide_status
from phasewise.stats.warming import find_warming

__all__ = [
    "CONTROL_SHARE",
    "UNMEASURED_FLOOR",
    "BetweenVariance",
    "Chances",
    "Conditions",
    "Continue",
    "Decision",
    "Modes",
    "RatioEstimate",
    "SetLevel",
    "Standing",
    "Stop",
    "StopRules",
    "Trend",
    "TrimmedMean",
    "aa_floor",
    "adjust_chances",
    "chain_ratios",
    "combine_sets",
    "count_sure_sets",
    "decide_next",
    "decide_status",
    "estimate_ratio",
    "find_modes",
    "find_warming",
    "holm",
    "holm_families",
    "interval_score",
    "is_precise",
    "is_warm",
    "jump_limit",
    "learn_between",
    "measure_level",
    "measure_trend",
    "nearest_round",
    "next_value",
    "noise_limit",
    "p50",
    "p99",
    "p_beyond",
    "p_value",
    "paid_error",
    "split_modes",
    "trimmed_mean",
    "yuen_interval",
]
