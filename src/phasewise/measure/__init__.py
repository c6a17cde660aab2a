"""The measure stage: ratios from interleaved rounds of paired processes."""

from phasewise.measure.compare import Comparison, compare
from phasewise.measure.control import measure_control
from phasewise.measure.headline import measure_headline
from phasewise.measure.variant import measure_variant

__all__ = ["Comparison", "compare", "measure_control", "measure_headline", "measure_variant"]
